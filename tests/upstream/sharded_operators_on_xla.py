"""What goes wrong on XLA where a tensor is sharded over devices; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
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


def all_and_any() -> tuple[object, object]:
    try:
        return True, bool(sharded(torch.ones(4)).all())
    except (RuntimeError, ValueError) as error:
        return True, str(error).splitlines()[0][:120]


def copy_read_on_the_host() -> tuple[object, object]:
    tensor = sharded(torch.arange(3.0))
    copy = tensor.clone()
    torch.nextafter(copy, copy)  # torch_xla has no such operator: it runs on the CPU
    torch_xla.sync()
    shards = spmd.XLAShardedTensor(copy).local_shards
    return [[0.0, 1.0], [2.0]], [shard.unpadded_data.tolist() for shard in shards]


def diagonal_written_by_index() -> tuple[object, object]:
    placed, first = sharded(torch.arange(16.0).reshape(4, 4)), torch.zeros(1, dtype=torch.int64)
    written = placed.diagonal().index_fill(0, first.to(placed.device), -1.0)
    return [-1.0, 5.0, 10.0, 15.0], placed.diagonal_scatter(written).cpu().diagonal().tolist()


FAULTS = {
    "all_and_any": all_and_any,
    "copy_read_on_the_host": copy_read_on_the_host,
    "diagonal_written_by_index": diagonal_written_by_index,
}
missing = []
for name in sys.argv[1:] or FAULTS:
    expected, actual = FAULTS[name]()
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
