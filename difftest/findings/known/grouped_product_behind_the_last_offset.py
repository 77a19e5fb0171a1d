"""`torch._grouped_mm` writes neither results nor gradients of rows behind the last offset.

Expert parallelism leaves rows of other ranks' experts there and weights them by zero, which keeps no NaN out, and no
gradient (transformers#48205). The reference weights one row after another. `use_deterministic_algorithms` fills such
memory with NaN, else it has what was there before. Exits 0 while the fault is there.
"""

import sys

import torch

torch.use_deterministic_algorithms(True)  # noqa: FBT003  torch's signature
rows = torch.ones(4, 8, dtype=torch.bfloat16, requires_grad=True)
matrices = torch.ones(2, 8, 8, dtype=torch.bfloat16)
weights = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.bfloat16)
results = torch._grouped_mm(rows, matrices, offs=torch.tensor([1, 2], dtype=torch.int32))  # noqa: SLF001
weighted = results * weights.unsqueeze(-1)
weighted[:2].sum().backward()
expected = [8.0, 8.0, 0.0, 0.0]
print(f"expected {expected}, actual {weighted[:, 0].tolist()}; gradients {rows.grad[:, 0].tolist()}")
sys.exit(int(weighted[:, 0].tolist() == rows.grad[:, 0].tolist() == expected))
