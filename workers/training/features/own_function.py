"""Linear layers by a `torch.autograd.Function` with a backward of its own.

Equal to Linear layers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.features.own_function import Options
from workers.training.features import Hooks, nothing
from workers.training.forwards import replace_forward


class _Product(torch.autograd.Function):
    """`x @ weight.t() + bias`, in some parts along the last dim."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own type is private
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        parts: int,
    ) -> Tensor | tuple[Tensor, ...]:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        product = functional.linear(x, weight, bias)
        return product if parts == 1 else product.tensor_split(parts, -1)

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401  torch's own type is private
        *gradients: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        gradient = torch.cat(gradients, -1)
        rows = gradient.flatten(0, -2)
        return gradient @ weight, of_weight(rows, x), rows.sum(0) if ctx.biased else None, None


def of_weight(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of the weight, from that of the product (rows, outputs)."""
    return gradient.t() @ x.flatten(0, -2)


def hooks(options: Options) -> Hooks:
    """The forward of every Linear layer calls the function."""

    def place(module: nn.Module) -> nn.Module:
        for inner in module.modules():
            if type(inner) is nn.Linear:
                replace_forward(inner, _through(inner, options.outputs))
        return module

    return Hooks(place=place)


def _through(linear: nn.Linear, parts: int) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        products = _Product.apply(x, linear.weight, linear.bias, parts)  # type: ignore[no-untyped-call]
        return torch.cat(products, -1) if parts > 1 else products

    return forward


equal = nothing
