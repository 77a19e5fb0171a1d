"""`elu`, `celu` and `selu` of small negative numbers on XLA are computed as exp(x) - 1, which cancels.

At -1e-5 they are 0.1 % off, and below half a roundoff 0; torch's own kernels use expm1. torch_xla 2.9.0.
Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

right = False
for function in (functional.elu, functional.celu, functional.selu):
    given = torch.tensor([-1e-3, -1e-5, -1e-8])
    expected, actual = function(given), function(given.to(torch_xla.device())).cpu()
    print(f"{function.__name__}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= torch.allclose(expected, actual, rtol=1e-5, atol=0.0)
sys.exit(1 if right else 0)
