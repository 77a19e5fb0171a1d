"""torch's `grid_sample` that reflects at borders ends the process in its gradient where the grid has a NaN.

torch 2.9.0, on the CPU.

Fails by SIGSEGV
"""

import torch
from torch.nn import functional

image, grid = torch.ones(1, 1, 4, 4).requires_grad_(), torch.full((1, 2, 2, 2), torch.nan)
functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False).sum().backward()
print(image.grad)
