"""`diagonal_scatter` of a diagonal written by `index_fill` or `index_copy` gives wrong elements.

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


def diagonal_written_by_index() -> tuple[object, object]:
    placed, first = sharded(torch.arange(16.0).reshape(4, 4)), torch.zeros(1, dtype=torch.int64)
    written = placed.diagonal().index_fill(0, first.to(placed.device), -1.0)
    return [-1.0, 5.0, 10.0, 15.0], placed.diagonal_scatter(written).cpu().diagonal().tolist()


expected, actual = diagonal_written_by_index()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
