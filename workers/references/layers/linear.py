"""The linear layer: a sum of products for each output."""

from difftest.cases.layers.linear import Linear
from workers.references.layers import Array, Context, complete, projected

lacks = complete


def computed(layer: Linear, inputs: Array, context: Context) -> Array:
    """A tied weight is that of the layer it is borrowed from."""
    weight = context.weights[layer.borrows()["weight"]] if layer.tied else context.own("weight")
    return projected(inputs, weight, context.own("bias") if layer.bias else None)
