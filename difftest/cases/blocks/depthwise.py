"""A convolution of every channel by itself, then one over channels, as in MobileNet and Mamba."""

from typing import ClassVar

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """A kernel that looks back, and how many filters a channel has."""

    WEIGHT: ClassVar = 1

    width: Size
    kernel: Size
    multiplier: Size

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """With a multiplier every channel has several filters."""
        return {"width": widths(unit), "kernel": (4, 3, 2), "multiplier": (1, 2)}

    def declared(self) -> Declared:
        """A kernel for every channel, and a matrix over channels."""
        filters = self.width * self.multiplier
        depthwise = {"depthwise.weight": (filters, 1, self.kernel), "depthwise.bias": (filters,)}
        return Declared(
            parameters={**depthwise, **linear("pointwise", self.width, filters)},
            inputs=self.width,
            outputs=self.width,
            positions=True,
            cuts={"pointwise.weight": (0, 1)},
        )
