"""LSTM and GRU along a sequence."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from workers.training.blocks import Sizes

CELLS: Mapping[str, type[nn.LSTM] | type[nn.GRU]] = {"LSTM": nn.LSTM, "GRU": nn.GRU}


class Recurrent(nn.Module):
    """Torch's module, of which the outputs alone are kept."""

    def __init__(self, cells: nn.RNNBase) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, inputs) to (batch, sequence, hidden * directions)."""
        outputs: Tensor = self.cells(inputs)[0]
        return outputs


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The cells, with the batch first."""
    cells = CELLS[arguments["cell"]](
        arguments["inputs"],
        arguments["hidden"],
        num_layers=arguments["layers"],
        bias=arguments["bias"],
        batch_first=True,
        bidirectional=arguments["both"],
    )
    return Recurrent(cells)
