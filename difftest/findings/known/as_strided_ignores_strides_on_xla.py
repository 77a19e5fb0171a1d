"""Writes into an `as_strided` view, `as_strided_scatter` and the gradient of `as_strided` ignore the
strides.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()
SIZE, STRIDE, OFFSET = (2, 2), (4, 1), 1


def as_strided(device: object) -> object:
    """What is written into rows of two, whose memory is four apart: in place, by scatter, by the gradient."""
    first, second = (torch.zeros(2, 4, device=device) for _ in range(2))
    first.as_strided(SIZE, STRIDE, OFFSET).fill_(1)
    scattered = second.as_strided_scatter(torch.ones(SIZE, device=device), SIZE, STRIDE, OFFSET)
    second.requires_grad_().as_strided(SIZE, STRIDE, OFFSET).sum().backward()
    return first.tolist(), scattered.tolist(), second.grad.tolist()


actual = as_strided(XLA)
print(f"expected {as_strided('cpu')}, actual {actual}")
sys.exit(actual == as_strided("cpu"))
