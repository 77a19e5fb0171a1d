"""`mark_sharding` of an empty tensor raises where another dim is cut unevenly: it pads by a negative number.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.distributed import spmd

xr.use_spmd()
mesh = spmd.Mesh(list(range(4)), (2, 2), ("x", "y"))
for shape in ((2, 0, 3), (1, 0, 3)):
    tensor = torch.zeros(shape).to(torch_xla.device())
    try:
        spmd.mark_sharding(tensor, mesh, ("x", "y", None))
    except RuntimeError as error:
        print(f"{shape}: expected to be sharded, actual {str(error).splitlines()[0]}")
        there = True
    else:
        print(f"{shape}: sharded, as expected")
        there = False
sys.exit(0 if there else 1)
