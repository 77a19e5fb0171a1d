"""A further group of parameters, of which there are none.

Equal to nothing.
"""

from typing import Any

from torch import nn

from difftest.cases.features.empty_group import Options
from workers.training.features import Hooks, nothing


def hooks(options: Options) -> Hooks:
    """Behind the group of all parameters, or before it."""

    def groups(parameters: dict[str, nn.Parameter]) -> list[dict[str, Any]]:
        both: list[dict[str, Any]] = [{"params": all_of(parameters)}, {"params": []}]
        return both[::-1] if options.first else both

    return Hooks(groups=groups)


def all_of(parameters: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """The parameters of the first group."""
    return list(parameters.values())


equal = nothing
