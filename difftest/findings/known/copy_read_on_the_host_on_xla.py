"""An unevenly sharded tensor and its copy swap shardings when an operator falls back to the host.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla
from torch_xla.distributed import spmd

torch_xla.runtime.use_spmd()
MESH = spmd.Mesh([0, 1], (2,), ("x",))


def sharded(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.to(torch_xla.device())
    spmd.mark_sharding(tensor, MESH, ("x", *[None] * (tensor.dim() - 1)))
    return tensor


def copy_read_on_the_host() -> tuple[object, object]:
    tensor = sharded(torch.arange(3.0))
    copy = tensor.clone()
    torch.nextafter(copy, copy)  # torch_xla has no such operator: it runs on the CPU
    torch_xla.sync()
    shards = spmd.XLAShardedTensor(copy).local_shards
    return [[0.0, 1.0], [2.0]], [shard.unpadded_data.tolist() for shard in shards]


expected, actual = copy_read_on_the_host()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
