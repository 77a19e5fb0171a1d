"""A constant that is added to the transpose of a product of no columns is transposed too.

torch_xla 2.9.0 on the CPU, silent. XLA computes with constants while it compiles. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import numpy as np
import torch
import torch_xla
from torch_xla.core import xla_builder

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
one, other = torch.zeros(0, 2).to(torch_xla.device()), torch.zeros(0, 3).to(torch_xla.device())
result = xla_builder.call_jax(lambda one, other: -(NUMBERS + (other.T @ one).T), (one, other))
expected, actual = (-NUMBERS).tolist(), result.cpu().tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(int(expected == actual))
