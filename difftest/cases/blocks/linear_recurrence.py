"""A gated linear recurrence, as of Griffin and HGRN, by torch's functions of control flow."""

from typing import ClassVar, Literal

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Its width, how many follow each other, the function that runs them, and whether backwards.

    `pointwise` is a fusible `associative_scan`, `associative` a generic one.
    """

    WEIGHT: ClassVar[int] = 1
    CONTROL_FLOW: ClassVar[bool] = True

    width: Size
    layers: Size
    function: Literal["scan", "associative", "pointwise"]
    reverse: bool

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """Each function as often; mostly from the first position on."""
        return {
            "width": widths(unit),
            "layers": (1, 2),
            "function": ("scan", "associative", "pointwise"),
            "reverse": (False, False, True),
        }

    def declared(self) -> Declared:
        """The projections of the gates."""
        parameters: dict[str, tuple[int, ...]] = {}
        for layer in range(self.layers):
            parameters |= linear(f"gates.{layer}", self.width, self.width, bias=True)
        return Declared(parameters=parameters, inputs=self.width, outputs=self.width, positions=True)
