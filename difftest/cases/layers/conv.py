"""The convolution along a sequence."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from difftest.cases.layer import Layer, Parameters
from difftest.cases.layers.linear import Linear

SCRIPT_CLASS = """\
class SequenceConv(nn.Conv1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)"""


class Conv(Layer, frozen=True, kw_only=True, tag="conv"):
    """A convolution along the sequence that keeps its length.

    weight is (outputs, inputs, kernel), and kernel is odd.
    """

    NEEDS_SEQUENCE: ClassVar[bool] = True
    MAGNITUDE: ClassVar[Literal["grows"]] = "grows"
    KERNELS: ClassVar[tuple[str, ...]] = ("weight",)
    DTENSOR_RULE: ClassVar[bool] = False
    OWN_SIZES: ClassVar[Mapping[str, tuple[int, ...]]] = {"kernel": (1, 3)}
    SCRIPT_CLASS: ClassVar[str] = SCRIPT_CLASS

    inputs: int
    outputs: int
    kernel: int = 3

    @property
    def takes(self) -> int:
        """The width of its input."""
        return self.inputs

    def gives(self, width: int) -> int:
        """The width of its output."""
        return self.outputs

    def shapes(self) -> Parameters:
        """A kernel and a bias."""
        return {"weight": (self.outputs, self.inputs, self.kernel), "bias": (self.outputs,)}

    def contradiction(self) -> str:
        """An even kernel has no middle."""
        return "" if self.kernel % 2 else f"kernel {self.kernel}; it must be odd to keep the length"

    @property
    def complexity(self) -> int:
        """More than a linear layer, which it is at each position with a kernel of 1."""
        return 2

    def plainer(self) -> Linear:
        """A linear layer of the same widths."""
        return Linear(inputs=self.inputs, outputs=self.outputs)

    def fitted(self, width: int, first: Layer | None) -> "Conv":
        """With inputs of `width`."""
        return msgspec.structs.replace(self, inputs=width)

    def ending_at(self, width: int) -> "Conv":
        """With outputs of `width`."""
        return msgspec.structs.replace(self, outputs=width)

    @property
    def new_width(self) -> int:
        """Its outputs."""
        return self.outputs

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class, which transposes around torch's convolution."""
        return f"SequenceConv({self.inputs}, {self.outputs}, {self.kernel}, padding={self.kernel // 2})"
