"""`torch.autograd.graph.save_on_cpu`: what the backward pass needs is kept on the host.

Equal to keeping it where it is.
"""

from typing import Any

import torch
from torch import nn

from difftest.cases.features.activations_on_host import Options
from workers.training.features import Hooks, nothing
from workers.training.forwards import replace_forward


def hooks(_options: Options) -> Hooks:
    """Around the forward of the whole module."""

    def place(module: nn.Module) -> nn.Module:
        forward = module.forward

        def saving(*inputs: Any, **others: Any) -> Any:  # noqa: ANN401  the module's
            with torch.autograd.graph.save_on_cpu():
                return forward(*inputs, **others)

        replace_forward(module, saving)
        return module

    return Hooks(place=place, leaves_device=True)


equal = nothing
