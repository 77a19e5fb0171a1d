"""`index_fill` with a negative index fills nothing.

torch counts a negative index from the end. The gradient is that of nothing filled. torch_xla 2.9.0 on the CPU.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla  # noqa: F401


def filled(device: str) -> tuple[list[float], list[float]]:
    x = torch.tensor([1.0, 2.0, 3.0]).to(device).requires_grad_()
    result = x.index_fill(0, torch.tensor([-1]).to(device), 9.0)
    result.sum().backward()
    return result.tolist(), x.grad.tolist()


actual, expected = filled("xla"), filled("cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
