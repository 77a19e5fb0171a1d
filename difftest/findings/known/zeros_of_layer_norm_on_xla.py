"""Layer norm gives zeros the other sign: XLA takes the mean of numbers that are all -0.0 as 0.0.

What is left of them is then -0.0, and 0.0 on the CPU. torch_xla 2.9.0.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

zeros = torch.tensor([-0.0, -0.0, -0.0, -0.0])
actual = functional.layer_norm(zeros.to(torch_xla.device()), (4,)).cpu()
expected = functional.layer_norm(zeros, (4,))
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(1 if torch.equal(torch.signbit(actual), torch.signbit(expected)) else 0)
