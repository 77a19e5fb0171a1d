"""`log_softmax` inside `loss_parallel` waits forever where a rank has none of the classes.

torch 2.9.0 and 2.15.0 over gloo. The ranks with classes reduce the greatest score and then the sum; a rank
without leaves the first of the two out, so that its next collective, whatever it is, meets their second.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import log_softmax


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    scores = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(1)])
    with loss_parallel():
        logs = log_softmax(scores, -1).to_local()
    print(
        f"rank {rank} goes on with {logs.shape[1]} classes"
    )  # rank 3 alone; the others wait until it has ended


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
