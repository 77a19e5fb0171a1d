"""DTensor: a dim that two mesh axes cut in reverse order, as FSDP over tensor parallelism does, counts as cut in order.

torch 2.9.0 over gloo. `square` gives such a tensor as one cut in mesh order, and `+` adds other elements. Exits 0
while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    whole = torch.arange(4.0)
    in_order = distribute_tensor(whole, mesh, [Shard(0), Shard(0)])
    own = whole[[[0], [2], [1], [3]][rank]]  # cut by "tp" first, then by "dp"
    reverse = DTensor.from_local(own, mesh, [_StridedShard(0, split_factor=2), Shard(0)], run_check=False)
    assert reverse.full_tensor().equal(whole)
    actual = [one.full_tensor().tolist() for one in (reverse.square(), in_order + reverse)]
    expected = [whole.square().tolist(), (whole + whole).tolist()]
    if rank == 0:
        print(f"expected {expected}, actual {actual} of square and +")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
