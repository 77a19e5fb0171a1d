"""Building blocks of real models, each by its own definition (`workers.references.blocks`)."""

from difftest.cases.layers.building_block import BuildingBlock
from workers.references import blocks
from workers.references.layers import Array, Context


def lacks(layer: BuildingBlock) -> str:
    """Blocks without a definition, and those in evaluation, which read statistics of earlier steps."""
    arguments = layer.arguments
    if layer.block not in blocks.names():
        return f"no definition of {layer.title}"
    evaluates = arguments.get("train") is False or arguments.get("norm") == "eval"
    return f"{layer.title} reads statistics" if evaluates else ""


def computed(layer: BuildingBlock, inputs: Array, context: Context) -> Array:
    """By its arguments."""
    return blocks.load(layer.block).computed(layer.arguments, inputs, context)
