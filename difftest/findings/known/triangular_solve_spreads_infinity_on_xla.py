"""`triangular_solve` on XLA gives NaN for unknowns that an infinite right-hand side does not concern.

XLA multiplies by the inverse, and 0 times infinity is NaN; torch substitutes. So does
`linalg.solve_triangular` on XLA. torch_xla 2.9.0. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

matrix, right_side = torch.ones(5, 5), torch.tensor([[1.0], [1.0], [1.0], [-torch.inf], [1.0]])
expected = torch.triangular_solve(right_side, matrix).solution
actual = torch.triangular_solve(*(one.to(torch_xla.device()) for one in (right_side, matrix))).solution.cpu()
print(f"expected {expected.flatten().tolist()}, actual {actual.flatten().tolist()}")
sys.exit(0 if expected[-1].isfinite() and actual[-1].isnan() else 1)
