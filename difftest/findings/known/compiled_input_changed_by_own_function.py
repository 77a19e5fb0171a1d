"""The gradient skips an autograd.Function that changes an input of a compiled function in place.

torch 2.9.0 and 2.15.0. The caller goes on with the input. Its numbers are those of eager torch; its gradient is not
multiplied by 3. Silent, by AOTAutograd. Exits 0 while the fault is there.
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


@torch.compile(backend="aot_eager")
def squares(x: torch.Tensor) -> torch.Tensor:
    return Tripled.apply(x) ** 2


x = torch.ones(2, requires_grad=True)
y = x * 1.0
(squares(y) + y).sum().backward()
print(f"expected [21.0, 21.0], actual {x.grad.tolist()}")
sys.exit(0 if x.grad.tolist() != [21.0, 21.0] else 1)
