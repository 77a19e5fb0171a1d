"""A partial sum of integers plus a replicated tensor is float32, and rounds from 2^24 on.

It does so beside another partial sum: in `add`, `cat` and `stack`, and in `linear`, `addmm` and `baddbmm`,
whose bias no longer has the dtype of the product. torch 2.9.0 and 2.15.0, two ranks over gloo. Exits 0 while
the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

TABLE, LARGE, WHOLE = torch.arange(16).reshape(4, 4), torch.full((4,), 2**24 + 1), Replicate()
CALLS = {
    "add": lambda to: to(TABLE, Shard(0)).sum(0) + to(LARGE, WHOLE),
    "cat": lambda to: torch.cat([to(TABLE, Shard(0)).sum(0), to(LARGE, WHOLE)]),
}


def main(rank: int, rendezvous: str, names: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, missing = init_device_mesh("cpu", (2,)), []
    for name in names:
        expected = str(CALLS[name](lambda tensor, _: tensor)[-1])
        try:
            actual = str(
                CALLS[name](lambda tensor, to: distribute_tensor(tensor, mesh, [to])).full_tensor()[-1]
            )
        except RuntimeError as error:
            actual = str(error).splitlines()[0]
        print(f"{name}: expected {expected}, actual {actual}")
        missing += [name] if actual == expected else []
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(), list(CALLS)), 2)
