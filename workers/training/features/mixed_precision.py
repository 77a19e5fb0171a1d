"""Master weights in float32: the model computes with copies of its parameters and inputs in bfloat16.

FSDP does it by its `MixedPrecisionPolicy`; elsewhere every forward pass casts. Equal to the same program in
float64, with the rounding of bfloat16 in the forward and the backward pass and that of float32 in the update.
"""

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import stateless
from torch.utils._pytree import tree_map_only

from difftest.cases.features.mixed_precision import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks
from workers.training.features.autocast import NARROW, Forward, narrowed, simulated
from workers.training.layers.residual import Residual


def hooks(_options: Options) -> Hooks:
    """Around the forward of the whole module."""
    return narrowed(_with_copies_once)


def equal(_options: Options) -> Hooks:
    """The same, which leaves float64 as it is; a run with simulated rounding rounds more until the update."""
    return simulated(narrowed(_with_copies_again))


def _with_copies_once(module: nn.Module) -> Forward:
    if any(isinstance(one, Residual) and one.recompute for one in module.modules()):
        msg = "no wrapper casts here; a block that is computed again would find parameters of float32"
        raise UnsupportedError(msg)
    return _with_copies(module)


def _with_copies_again(module: nn.Module) -> Forward:
    for block in module.modules():
        if isinstance(block, Residual) and block.recompute:
            block.recompute = partial(_as_now, block, block.recompute)
    return _with_copies(module)


def _as_now(block: nn.Module, recompute: Forward, run: Forward, *inputs: Any) -> Any:  # noqa: ANN401
    """`recompute`, which later too runs the `block` with the parameters that it has now."""
    held: dict[str, torch.Tensor] = dict(block.named_parameters())

    def again(*given: Any) -> Any:  # noqa: ANN401
        with stateless._reparametrize_module(block, held, tie_weights=True):  # noqa: SLF001  of functional_call
            return run(*given)

    return recompute(again, *inputs)


def _with_copies(module: nn.Module) -> Forward:
    forward = module.forward

    def casting(*inputs: Any) -> Any:  # noqa: ANN401  the module's
        copies = {name: _narrow(one) for name, one in module.named_parameters()}
        with stateless._reparametrize_module(module, copies, tie_weights=True):  # noqa: SLF001  of functional_call
            return forward(*tree_map_only(torch.Tensor, _narrow, inputs))

    return casting


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(NARROW) if tensor.dtype == torch.float32 else tensor
