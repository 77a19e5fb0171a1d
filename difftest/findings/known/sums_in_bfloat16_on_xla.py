"""Sums of bfloat16 accumulate in bfloat16 on the CPU: `mse_loss` of 64 x 64 is a fourth.

A sum of ones in bfloat16 stays at 256, so that losses, means and the gradients of biases are a fourth of what
they should be, and less. float16 sums overflow at 65504. jax.numpy makes XLA add up in float32; torch_xla
2.9.0 does not. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

ONES = torch.ones(64, 64, dtype=torch.bfloat16)


def bias(at: object) -> torch.Tensor:
    """The gradient of a linear layer's bias."""
    weight, offset = (one.to(at).requires_grad_() for one in (ONES[:4], torch.zeros_like(ONES[0, :4])))
    functional.linear(ONES.repeat(256, 1).to(at), weight, offset).float().sum().backward()
    return offset.grad


CALLS = {
    "adaptive_avg_pool": lambda at: functional.adaptive_avg_pool2d(ONES.view(1, 1, 64, 64).to(at), 1),
    "bias": bias,
    "mse_loss": lambda at: functional.mse_loss(ONES.to(at), 2 * ONES.to(at)),
    "sum": lambda at: ONES.to(at).sum(),
}
right = False
for name in CALLS:
    expected, actual = CALLS[name]("cpu").flatten(), CALLS[name](torch_xla.device()).cpu().flatten()
    print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= torch.allclose(expected, actual, rtol=0.02)
sys.exit(1 if right else 0)
