"""The convolution along a sequence: a sum over the kernel's positions, with zeros outside."""

from difftest.cases.layers.conv import Conv
from workers.references.layers import Array, Context, complete, projected

lacks = complete


def computed(layer: Conv, inputs: Array, context: Context) -> Array:
    """A linear layer of the shifted sequence for every position of the kernel (a cross-correlation)."""
    length, half, kernel = inputs.shape[1], layer.kernel // 2, context.own("weight")
    padded = context.numpy.pad(inputs, ((0, 0), (half, half), (0, 0)))
    shifted = [projected(padded[:, at : at + length], kernel[:, :, at]) for at in range(layer.kernel)]
    return sum(shifted) + context.own("bias")
