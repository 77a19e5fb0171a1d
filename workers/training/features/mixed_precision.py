"""Master weights in float32: the model computes with copies of its parameters and inputs in bfloat16.

FSDP does it by its `MixedPrecisionPolicy`; elsewhere every forward pass casts. Equal to the same program in
float64, with the rounding of bfloat16 in the forward and the backward pass and that of float32 in the update.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import stateless
from torch.utils._pytree import tree_map_only

from difftest.cases.features.mixed_precision import Options
from workers.training.features import Hooks
from workers.training.features.autocast import NARROW, Forward, narrowed, simulated


def hooks(_options: Options) -> Hooks:
    """Around the forward of the whole module."""
    return narrowed(_with_copies)


def equal(_options: Options) -> Hooks:
    """The same, which leaves float64 as it is; a run with simulated rounding rounds more until the update."""
    return simulated(narrowed(_with_copies))


def _with_copies(module: nn.Module) -> Forward:
    forward = module.forward

    def casting(*inputs: Any) -> Any:  # noqa: ANN401  the module's
        copies = {name: _narrow(one) for name, one in module.named_parameters()}
        with stateless._reparametrize_module(module, copies, tie_weights=True):  # noqa: SLF001  of functional_call
            return forward(*tree_map_only(torch.Tensor, _narrow, inputs))

    return casting


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(NARROW) if tensor.dtype == torch.float32 else tensor
