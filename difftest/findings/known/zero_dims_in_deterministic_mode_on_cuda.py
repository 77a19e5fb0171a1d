"""Deterministic algorithms on CUDA fail for 0-dim tensors in `index_add`, `scatter`, `gather`'s gradient and
others.

torch 2.11.0 and 2.15.0, on an H100; it needs a GPU. Each call works on a CPU, and without such algorithms.
"""

import sys

import torch


def call(x, index):
    return x.index_add(0, index.reshape(1), x)


def gradient() -> float:
    x = torch.tensor(2.0, device="cuda", requires_grad=True)
    call(x, torch.tensor(0, device="cuda")).backward()
    return x.grad.item()


if not torch.cuda.is_available():
    sys.exit("needs a GPU")
torch.use_deterministic_algorithms(mode=False)
expected = gradient()
torch.use_deterministic_algorithms(mode=True)
actual = gradient()
print(f"expected a gradient of {expected}, actual {actual}")
