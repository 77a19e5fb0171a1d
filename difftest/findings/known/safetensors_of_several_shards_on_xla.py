"""SPMD: a distributed checkpoint in safetensors has one shard of a tensor, in the place of all.

torch's `HuggingFaceStorageWriter` names a tensor of the file by the name of the whole one, and one process writes the
shards of all devices. Silent. torch_xla 2.9.0 with torch 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
import tempfile

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla
import torch_xla.runtime as xr
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch_xla.distributed import spmd

xr.use_spmd()
from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, SPMDSavePlanner

weight = torch.arange(4.0).to(torch_xla.device())
spmd.mark_sharding(weight, spmd.Mesh([0, 1], (2,), ("shard",)), ("shard",))
folder = tempfile.mkdtemp()
writer = HuggingFaceStorageWriter(folder, save_distributed=True)
writer.per_thread_copy_ahead = 0  # needs no streams of the device
save({"weight": weight}, storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)
state = {"weight": torch.zeros(4).to(torch_xla.device())}
load(state, storage_reader=HuggingFaceStorageReader(folder), planner=SPMDLoadPlanner(), no_dist=True)
actual = state["weight"].tolist()
print(f"expected [0.0, 1.0, 2.0, 3.0], actual {actual}")
sys.exit(actual == [0.0, 1.0, 2.0, 3.0])
