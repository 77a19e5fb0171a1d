"""The linear layer: a sum of products for each output."""

from difftest.cases.layers.linear import Linear
from workers.references.layers import Array, Given, complete, projected

lacks = complete


def computed(layer: Linear, inputs: Array, given: Given) -> Array:
    """A tied weight is that of the layer it is borrowed from."""
    weight = given.weights[layer.borrows()["weight"]] if layer.tied else given.own("weight")
    return projected(inputs, weight, given.own("bias") if layer.bias else None)
