"""The residual block (He et al., 2016): `x + layers(x)`."""

from difftest.cases.layers.residual import Residual
from workers.references import layers
from workers.references.layers import Array, Context


def lacks(layer: Residual) -> str:
    """What its layers lack."""
    return next(filter(None, map(layers.lacks, layer.layers)), "")


def computed(layer: Residual, inputs: Array, context: Context) -> Array:
    """Its layers in order, and the sum, as often as the block is applied."""
    for _ in range(layer.times):
        values = inputs
        for index, inner in enumerate(layer.layers):
            values = layers.computed(inner, values, context.at(f"{context.path}.{index}"))
        inputs = inputs + values
    return inputs
