"""Fused SGD: where GradScaler skips the first update, the momentum is memory that nothing has written.

The kernel returns before it writes the momentum, which counts as there from then on. torch 2.9.0 on the CPU, silent.
`use_deterministic_algorithms` fills such memory with NaN, else it has what was there before. Exits 0 while the fault
is there.
"""

import math
import sys

import torch


def trained(*, fused: bool) -> torch.Tensor:
    """The parameter after an update that overflows and one that does not."""
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    for gradient in (math.inf, 1.0):
        optimizer.zero_grad()
        scaler.scale((parameter * gradient).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return parameter.detach()


torch.use_deterministic_algorithms(True)  # noqa: FBT003  torch's signature
expected, actual = trained(fused=False), trained(fused=True)
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(int(torch.equal(expected, actual)))
