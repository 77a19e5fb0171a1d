"""`max_unpool2d` gives 0 for NaN and minus infinity: XLA's graph takes maxima with minus infinity.

What is minus infinity after that counts as a place that no index names. torch_xla 2.9.0; exits 0 while the
fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn.functional import max_unpool2d

maxima, indices = torch.tensor([[[[torch.nan, -torch.inf]]]]), torch.tensor([[[[0, 3]]]])
expected = max_unpool2d(maxima, indices, 2).tolist()
actual = max_unpool2d(maxima.to(torch_xla.device()), indices.to(torch_xla.device()), 2).tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(1 if str(actual) == str(expected) else 0)
