"""A building block, which its own file builds."""

from torch import nn

from difftest.cases.layers.building_block import BuildingBlock
from workers.training import blocks
from workers.training.layers import Plan


def module(layer: BuildingBlock, path: str, plan: Plan) -> nn.Module:
    """What `workers.training.blocks` makes of its arguments."""
    sizes = blocks.Sizes(sequence=plan.sequence, rounded=plan.rounded)
    return blocks.module_of(layer.block, layer.arguments, sizes)
