"""A module of the user's, with its tensors in the run's dtype."""

from torch import nn

from difftest.cases.layers.own import Own
from workers.own import made
from workers.training.layers import Plan


def module(layer: Own, path: str, plan: Plan) -> nn.Module:
    """What the user's function makes."""
    return made.cast_to(made.module(layer, plan.seed), plan.rounded, plan.dtypes.own)
