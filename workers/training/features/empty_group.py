"""A second group of parameters, of which there are none.

Equal to nothing.
"""

from torch import nn

from difftest.cases.features.empty_group import Options
from workers.training.features import Hooks, nothing


def hooks(_options: Options) -> Hooks:
    """Behind the group of all parameters."""
    return Hooks(groups=lambda parameters: [{"params": all_of(parameters)}, {"params": []}])


def all_of(parameters: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """The parameters of the first group."""
    return list(parameters.values())


equal = nothing
