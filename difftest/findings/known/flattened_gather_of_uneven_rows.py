"""Rows that two mesh axes share unevenly are lost when a flattened mesh lets one collective gather them.

The rows are cut by one axis, then by the other: 2, 1, 1 and 1 of five. One `all_gather` over all four ranks takes
pieces of 2, 2, 1 and 0. torch 2.15.0, which has modes that simulate ranks. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
with LocalTensorMode(4):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    mesh._flatten("all")
    rows = distribute_tensor(torch.arange(1.0, 6.0), mesh, [Shard(0), Shard(0)])
    actual = rows.full_tensor()
expected = [1.0, 2.0, 3.0, 4.0, 5.0]
print(f"expected {expected}, actual {actual._local_tensors[0].tolist()}")
sys.exit(actual._local_tensors[0].tolist() == expected)
