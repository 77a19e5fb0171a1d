"""`inner` of two vectors fails under `inference_mode`.

Both, in inference mode.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor


def inner(mesh: DeviceMesh) -> object:
    one = distribute_tensor(torch.ones(4), mesh, [Replicate()])
    with torch.inference_mode():
        return torch.inner(one, one)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    print("expected a DTensor, actual", inner(mesh))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
