"""Wrong numbers of DTensor on two ranks, without any exception; names select.

torch 2.9.0. Exits 0 when the faults are there.
"""

import sys
import tempfile
from collections.abc import Callable

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

NUMBERS = torch.tensor([[1.0, 5.0, 3.0], [2.0, 8.0, 1.0], [9.0, 4.0, 7.0], [6.0, 0.0, 2.0], [3.0, 6.0, 8.0]])


def amin_gradient(place: Callable) -> torch.Tensor:
    x = place(NUMBERS).requires_grad_()
    x.amin().sum().backward()
    return x.grad


def write_to_narrow(place: Callable) -> torch.Tensor:
    x = place(NUMBERS) * 1
    x.narrow(0, 2, 2).mul_(3.0)
    return x


FAULTS = {
    "max_indices": lambda place: place(NUMBERS).max(0).indices,
    "amin_gradient": amin_gradient,
    "mean_of_empty_shard": lambda place: place(NUMBERS[:1]).mean(),
    "write_to_narrow": write_to_narrow,
    "item": lambda place: place(NUMBERS).sum().item(),  # pytorch#166638
    "maximum_of_nan": lambda place: place(torch.tensor([2.0, 3.0, 1.0, torch.nan])).amax(0),
}


def main(rank: int, rendezvous: str, names: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, missing = init_device_mesh("cpu", (2,)), []
    for name in names:
        expected = torch.as_tensor(FAULTS[name](lambda tensor: tensor.clone()))
        actual = FAULTS[name](lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)]))
        actual = actual.full_tensor() if isinstance(actual, DTensor) else torch.as_tensor(actual)
        print(f"{name}: expected {expected.flatten()[-6:].tolist()}, actual {actual.flatten()[-6:].tolist()}")
        missing += [name] if str(expected.tolist()) == str(actual.tolist()) else []
    distributed.barrier()
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(), sys.argv[1:] or list(FAULTS)), 2)
