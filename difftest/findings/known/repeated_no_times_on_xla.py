"""`repeat` of a tensor no times raises on XLA; torch gives a tensor without elements.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

numbers = torch.ones(2, 3)
actual = tuple(numbers.to(torch_xla.device()).repeat(0, 1).cpu().shape)
print(f"expected {tuple(numbers.repeat(0, 1).shape)}, actual {actual}")
