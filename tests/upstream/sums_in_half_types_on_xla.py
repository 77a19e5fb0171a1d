"""XLA on the CPU adds up numbers of half types in half types; torch does in float32, and rounds once.

A sum of ones in bfloat16 stays at 256, so that losses, means and the gradients of biases are a fourth of what
they should be, and less. float16 sums overflow at 65504. jax.numpy makes XLA add up in float32; torch_xla
2.9.0 does not. Names select. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

ONES = torch.ones(64, 64, dtype=torch.bfloat16)
IMAGES = torch.ones(16, 1, 64, 64, dtype=torch.float16)


def bias(at: object) -> torch.Tensor:
    """The gradient of a linear layer's bias."""
    weight, offset = (one.to(at).requires_grad_() for one in (ONES[:4], torch.zeros_like(ONES[0, :4])))
    functional.linear(ONES.repeat(256, 1).to(at), weight, offset).float().sum().backward()
    return offset.grad


FAULTS = {
    "adaptive_avg_pool": lambda at: functional.adaptive_avg_pool2d(ONES.view(1, 1, 64, 64).to(at), 1),
    "bias": bias,
    "mse_loss": lambda at: functional.mse_loss(ONES.to(at), 2 * ONES.to(at)),
    "sum": lambda at: ONES.to(at).sum(),
    "avg_pool": lambda at: functional.avg_pool2d(IMAGES[:1].to(at), 64),
    "batch_norm": lambda at: functional.batch_norm(2 * IMAGES.to(at), None, None, training=True)[:1, 0, 0, 0],
}
right = False
for name in sys.argv[1:] or FAULTS:
    expected, actual = FAULTS[name]("cpu").flatten(), FAULTS[name](torch_xla.device()).cpu().flatten()
    print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= torch.allclose(expected, actual, rtol=0.02)
sys.exit(1 if right else 0)
