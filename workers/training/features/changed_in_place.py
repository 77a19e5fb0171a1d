"""What Linear layers give is halved in place, by hooks.

Equal to hooks that return the half of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from difftest.cases.features.changed_in_place import HALF, Options
from workers.training.features import Hooks


class _Halved(torch.autograd.Function):
    """A change in place with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401  torch's own type is private
        x.mul_(HALF)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401  torch's own type is private
        del ctx
        return gradients[0] * HALF


def _by_function(given: Tensor) -> Tensor:
    return cast("Tensor", _Halved.apply(given))  # type: ignore[no-untyped-call]


CHANGES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "method": lambda given: given.mul_(HALF),
    "view": lambda given: given.unsqueeze(0).mul_(HALF),
    "function": _by_function,
    "returned": _by_function,
}


def change(given: Tensor, by: str) -> Tensor:
    """Halves the tensor, and returns what the call does."""
    return CHANGES[by](given)


def hooks(options: Options) -> Hooks:
    """Ahead of wrappers."""

    def halved(_layer: nn.Module, _inputs: Any, given: Tensor) -> Tensor | None:  # noqa: ANN401  torch's type
        changed = change(given, options.by)
        return changed if options.by == "returned" else None

    return Hooks(place=lambda module: _hooked(module, halved))


def equal(_options: Options) -> Hooks:
    """By an operator that changes nothing."""
    return Hooks(place=lambda module: _hooked(module, lambda _layer, _inputs, given: given * HALF))


def _hooked(module: nn.Module, hook: Callable[[nn.Module, Any, Tensor], Tensor | None]) -> nn.Module:
    for layer in module.modules():
        if type(layer) is nn.Linear:
            layer.register_forward_hook(hook)
    return module
