"""Layers that halve the gradient of their input by `Tensor.register_hook`.

Equal to half of the input, and half of it without a gradient: their sum is the input, exactly.
"""

from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.features.input_hooks import Options
from workers.training.features import Hooks


def hooks(_options: Options) -> Hooks:
    """Ahead of every layer, in each forward pass."""
    return Hooks(place=lambda module: _ahead(module, _hooked))


def equal(_options: Options) -> Hooks:
    """Plain arithmetic."""
    return Hooks(place=lambda module: _ahead(module, _halved))


def halved(gradient: Tensor) -> Tensor:
    """What a hook makes of a gradient."""
    return gradient / 2


def _ahead(module: nn.Module, act: Any) -> nn.Module:  # noqa: ANN401  torch's type of a hook
    for layer in module.children():
        layer.register_forward_pre_hook(act)
    return module


def _hooked(_layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    if inputs[0].requires_grad:
        inputs[0].register_hook(halved)


def _halved(_layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    first, *others = inputs
    if not torch.is_floating_point(first):
        return None
    return first / 2 + first.detach() / 2, *others
