"""A complex128 tensor loses its imaginary parts when it is copied to the host; complex64 keeps them.

So it is on one device and on several. In SPMD, one that nothing was computed with is right: its copy on the
host is read. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

expected = torch.tensor([1.0 + 2.0j, 3.0 - 4.0j], dtype=torch.complex128)
actual = expected.to(torch_xla.device()).cpu()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(1 if torch.equal(expected, actual) else 0)
