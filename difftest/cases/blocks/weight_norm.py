"""A Linear layer whose weight is a direction times a magnitude for every output (weight normalization)."""

from typing import ClassVar

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Size
from difftest.cases.sizes import widths

MAGNITUDE, DIRECTION = (f"linear.parametrizations.weight.original{number}" for number in range(2))
"""Torch's names."""


class Arguments(BlockArguments, frozen=True):
    """Widths."""

    WEIGHT: ClassVar = 1

    inputs: Size
    outputs: Size

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """Widths that `unit` usually divides."""
        return {"inputs": widths(unit), "outputs": widths(unit)}

    def declared(self) -> Declared:
        """A magnitude (outputs, 1), a direction (outputs, inputs) and a bias."""
        inputs, outputs = self.inputs, self.outputs
        return Declared(
            parameters={"linear.bias": (outputs,), MAGNITUDE: (outputs, 1), DIRECTION: (outputs, inputs)},
            inputs=inputs,
            outputs=outputs,
            cuts={DIRECTION: (0, 1)},
        )
