"""DTensor: a dim that two mesh axes cut in reverse order (`_StridedShard`), merged with the one before it, is permuted.

Such are parameters of FSDP2 over tensor parallelism. torch 2.15.0, silent; 2.9.0 refuses to merge the dims. Exits 0
while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import DTensor, Shard, init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    row, column = mesh.get_coordinate()
    piece = torch.arange(4.0)[2 * column + row : 2 * column + row + 1]  # of tp's halves, that of dp
    placements = [_StridedShard(0, split_factor=2), Shard(0)]
    whole = DTensor.from_local(piece, mesh, placements, shape=torch.Size([4]), stride=(1,))
    merged = whole.view(1, 4).expand(2, 4).reshape(8).full_tensor().tolist()
    if rank == 0:
        print(f"expected {[0.0, 1.0, 2.0, 3.0] * 2}, actual {merged}", flush=True)
    distributed.barrier()
    sys.exit(merged == [0.0, 1.0, 2.0, 3.0] * 2)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
