"""A sharded -0.0 becomes 0.0 where the SPMD partitioner gives every device what only one of them holds.

It adds up what the devices hold, with 0.0 for what they do not, and 0.0 + -0.0 is 0.0: the sign is lost, and
1 / x has the other infinity. torch_xla 2.9.0. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
given = torch.tensor([[-0.0], [-0.0]])
sharded = given.to(torch_xla.device())
xs.mark_sharding(sharded, xs.Mesh(np.arange(2), (2,), ("x",)), (None, "x"))
numbers = torch.ones(2, 3)
expected, actual = 1.0 / (numbers * given), 1.0 / (numbers.to(torch_xla.device()) * sharded).cpu()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(1 if torch.equal(expected, actual) else 0)
