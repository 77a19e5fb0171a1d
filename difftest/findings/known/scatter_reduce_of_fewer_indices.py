"""`scatter_reduce`: the gradient of a source of which the index has fewer rows is wrong.

Rows without an index take part in no result, and their gradient is 0. That of `prod` is not, and `amax` counts
them as equal ones. torch 2.9.0, in float64. Exits 0 while the fault is there.
"""

import sys

import torch

index = torch.tensor([[0, 1]])
wrong = False
for reduction in ("prod", "amax"):
    source = torch.full((2, 2), 3.0, dtype=torch.float64, requires_grad=True)
    result = torch.ones(1, 2, dtype=torch.float64).scatter_reduce(1, index, source, reduction)
    result.sum().backward()
    print(f"{reduction}: expected [[1.0, 1.0], [0.0, 0.0]], actual {source.grad.tolist()}")
    wrong |= source.grad.tolist() != [[1.0, 1.0], [0.0, 0.0]]
sys.exit(int(not wrong))
