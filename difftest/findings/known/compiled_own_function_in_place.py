"""In compiled code the gradient skips an autograd.Function that changes its input in place, if its result is dropped.

torch 2.9.0. Eager torch multiplies the gradient by 3, and so does the compiled code of a caller that goes on with what
`apply` returns. Silent, by every compiler. Exits 0 while the fault is there.
"""

import sys
from typing import Any

import torch


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(3.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 3.0


@torch.compile(backend="eager")
def tripled(x: torch.Tensor) -> torch.Tensor:
    y = x * 1.0
    Tripled.apply(y)
    return y


x = torch.ones(2, requires_grad=True)
tripled(x).sum().backward()
print(f"expected [3.0, 3.0], actual {x.grad.tolist()}")
sys.exit(0 if x.grad.tolist() == [1.0, 1.0] else 1)
