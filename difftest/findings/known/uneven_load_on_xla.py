"""A checkpoint cannot be loaded into an unevenly sharded tensor whose update was not run yet.

torch_xla's planner fails for 9 rows over 2 devices. Exits 0 while the fault is there.
"""

import os
import sys
import tempfile

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.distributed.checkpoint import CheckpointException, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, SPMDSavePlanner

xr.use_spmd()
weight = torch.ones(9, 4).to(torch_xla.device())
xs.mark_sharding(weight, xs.Mesh(np.arange(2), (2,), ("dp",)), ("dp", None))
torch_xla.sync()
with tempfile.TemporaryDirectory() as folder:
    writer = FileSystemWriter(folder, per_thread_copy_ahead=0)
    save({"weight": weight}, storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)
    weight.zero_()
    try:
        reader = FileSystemReader(folder)
        load({"weight": weight}, storage_reader=reader, planner=SPMDLoadPlanner(), no_dist=True)
        actual = f"{weight.sum().item()}"
    except CheckpointException as error:
        actual = repr(error.failures[0][0])
print("expected the sum of the saved weight, 36.0, actual", actual)
sys.exit(0 if "'ellipsis' object is not iterable" in actual else 1)
