"""SPMD: a distributed checkpoint has nothing of a tensor that one of two mesh axes replicates.

`SPMDSavePlanner` lists a shard for every device, and torch's `dedup_tensors` drops what one plan has twice.
Saving says nothing; loading raises KeyError. torch_xla 2.9.0 with torch 2.9.0. Exits 0 while the fault is
there.
"""

import os
import sys
import tempfile

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import torch
import torch_xla
import torch_xla.runtime as xr
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save
from torch_xla.distributed import spmd

xr.use_spmd()
from torch_xla.experimental.distributed_checkpoint import SPMDSavePlanner

weight = torch.ones(8, 6).to(torch_xla.device())
spmd.mark_sharding(weight, spmd.Mesh([0, 1, 2, 3], (2, 2), ("replicate", "shard")), ("shard", None))
folder = tempfile.mkdtemp()
writer = FileSystemWriter(folder, per_thread_copy_ahead=0)
save({"weight": weight}, storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)
saved = [*FileSystemReader(folder).read_metadata().state_dict_metadata]
print(f"expected ['weight'], actual {saved}")
sys.exit(saved == ["weight"])
