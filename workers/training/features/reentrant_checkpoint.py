"""`torch.utils.checkpoint` with `use_reentrant=True`: a backward pass of its own computes a block again.

Equal to keeping what the block computes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from torch import Tensor
from torch.utils import checkpoint

from difftest.cases.features.reentrant_checkpoint import Options
from workers.training.features import Hooks


def hooks(_options: Options) -> Hooks:
    """By torch's function, whatever the backend's own way is."""
    return Hooks(operators=lambda own: replace(own, recompute=_reentrant))


def equal(_options: Options) -> Hooks:
    """Blocks are computed once."""
    return Hooks(operators=lambda own: replace(own, recompute=lambda block, *inputs: block(*inputs)))


def _reentrant(block: Callable[..., Tensor], *inputs: Any) -> Tensor:  # noqa: ANN401  tensors, and mappings of them
    again = checkpoint.checkpoint(block, *inputs, use_reentrant=True, preserve_rng_state=False)
    return cast("Tensor", again)
