"""`linear`, `addmm` and `baddbmm` of integers fail with a bias and a sharded inner dim.

It does so beside another partial sum: in `add`, `cat` and `stack`, and in `linear`, `addmm` and `baddbmm`,
whose bias no longer has the dtype of the product. torch 2.9.0 and 2.15.0, two ranks over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.functional import linear

TABLE, LARGE, WHOLE = torch.arange(16).reshape(4, 4), torch.full((4,), 2**24 + 1), Replicate()


def call(to):
    return linear(to(TABLE, WHOLE), to(TABLE, Shard(1)), to(LARGE, WHOLE))


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    expected = str(call(lambda tensor, _: tensor)[-1])
    actual = str(call(lambda tensor, to: distribute_tensor(tensor, mesh, [to])).full_tensor()[-1])
    print(f"expected {expected}, actual {actual}")


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
