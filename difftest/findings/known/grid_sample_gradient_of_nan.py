"""torch's `grid_sample` that reflects at borders ends the process in its gradient where the grid has a NaN.

torch 2.9.0, on the CPU. Exits 0 while the fault is there.
"""

import multiprocessing
import sys

import torch
from torch.nn import functional


def crash() -> None:
    image, grid = torch.ones(1, 1, 4, 4).requires_grad_(), torch.full((1, 2, 2, 2), torch.nan)
    functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False).sum().backward()


process = multiprocessing.get_context("fork").Process(target=crash)
process.start()
process.join()
print(f"expected exit status 0, actual {process.exitcode}")
sys.exit(0 if process.exitcode < 0 else 1)
