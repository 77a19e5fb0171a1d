"""A fused optimizer's result has the first shard on every device until the next sync.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.distributed import spmd

xr.use_spmd()
XLA, MESH, ATEN = torch_xla.device(), spmd.Mesh(np.arange(2), (2,), ("x",)), torch.ops.aten
SGD = {"weight_decay": 0, "momentum": 0, "lr": 1, "dampening": 0, "nesterov": False, "is_first_step": False}


def shards() -> object:
    """What the two devices hold of the updated weights, before anything else is computed."""
    weight, gradient = torch.arange(4.0).to(XLA), torch.zeros(4).to(XLA)
    spmd.mark_sharding(weight, MESH, ("x",))
    (updated,), *_ = ATEN._fused_sgd([weight], [gradient], [], maximize=False, **SGD)
    return [shard.unpadded_data.tolist() for shard in spmd.XLAShardedTensor(updated).local_shards]


expected = [[0.0, 1.0], [2.0, 3.0]]
actual = shards()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
