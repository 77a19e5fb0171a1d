"""LSTM and GRU along a sequence, of one or two layers, in one direction or both."""

from typing import Literal

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Size
from difftest.cases.sizes import widths

GATES = {"LSTM": 4, "GRU": 3}


class Arguments(BlockArguments, frozen=True):
    """The cell, its widths, and how layers are put together; `both`: in both directions."""

    cell: Literal["LSTM", "GRU"]
    inputs: Size
    hidden: Size
    layers: Size
    both: bool
    bias: bool

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """One direction twice as often as both."""
        return {
            "cell": ("LSTM", "GRU"),
            "inputs": widths(unit),
            "hidden": (4, 6, 8, 3),
            "layers": (1, 2),
            "both": (False, False, True),
            "bias": (True, True, False),
        }

    def declared(self) -> Declared:
        """Two matrices, and two biases, for every layer and direction; the gates are rows."""
        hidden, directions = self.hidden, ("", "_reverse") if self.both else ("",)
        rows = GATES[self.cell] * hidden
        parameters: dict[str, tuple[int, ...]] = {}
        for layer in range(self.layers):
            for direction in directions:
                end = f"_l{layer}{direction}"
                columns = self.inputs if not layer else hidden * len(directions)
                parameters[f"cells.weight_ih{end}"] = (rows, columns)
                parameters[f"cells.weight_hh{end}"] = (rows, hidden)
                if self.bias:
                    parameters |= {f"cells.bias_ih{end}": (rows,), f"cells.bias_hh{end}": (rows,)}
        outputs = hidden * len(directions)
        return Declared(parameters=parameters, inputs=self.inputs, outputs=outputs, positions=True)
