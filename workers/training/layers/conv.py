"""The convolution in torch, whose inputs have the positions last."""

from torch import Tensor, nn

from difftest.cases.layers.conv import Conv
from workers.training.layers import Plan


class SequenceConv(nn.Conv1d):
    """A convolution along dim 1 of (batch, sequence, width)."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, inputs) to (batch, sequence, outputs)."""
        return super().forward(inputs.transpose(1, 2)).transpose(1, 2)


def module(layer: Conv, path: str, plan: Plan) -> nn.Module:
    """Padded so that the length stays."""
    return SequenceConv(layer.inputs, layer.outputs, layer.kernel, padding=layer.kernel // 2)
