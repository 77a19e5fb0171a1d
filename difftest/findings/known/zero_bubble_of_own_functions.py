"""The gradient of a weight that a `torch.autograd.Function` takes cannot be computed apart from that of its input.

torch 2.9.0. Zero-bubble schedules do that; `stage_backward_weight` reads an attribute that such a function's node lacks.
"""

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight = ctx.saved_tensors
        return gradient * weight, gradient * x


x, weight = torch.ones(1, requires_grad=True), torch.nn.Parameter(torch.ones(1))
y = Product.apply(x, weight)
_, groups = stage_backward_input([y], [torch.ones(1)], [x], iter([weight]))
stage_backward_weight(iter([weight]), groups)
print(f"expected 1.0, actual {weight.grad.item()}")
