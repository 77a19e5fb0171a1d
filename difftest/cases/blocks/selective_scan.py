"""A selective state space model, step by step: Mamba's scan, with steps and states that follow the input."""

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Channels, and the states of each."""

    width: Size
    states: Size

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """Few states for each channel."""
        return {"width": widths(unit), "states": (4, 2, 1)}

    def declared(self) -> Declared:
        """Decay rates, a skip weight, and the projections of step sizes, inputs and outputs of the states."""
        width, states = self.width, self.states
        parameters: dict[str, tuple[int, ...]] = {"rates": (width, states), "skip": (width,)}
        parameters |= linear("steps", width, width, bias=True)
        parameters |= linear("entering", states, width)
        parameters |= linear("leaving", states, width)
        return Declared(parameters=parameters, inputs=width, outputs=width, positions=True)
