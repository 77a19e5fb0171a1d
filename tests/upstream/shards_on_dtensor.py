"""Operators whose rules say something else of a DTensor than each rank computes; a name runs one alone.

torch 2.9.0. The second of two ranks of torch's fake process group. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv2d, pad
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
line, grid, WHOLE = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2)), Replicate()


def of(*shape: int, to: Placement) -> DTensor:
    return distribute_tensor(torch.rand(shape), line, [to])


def local(result: torch.Tensor) -> str:
    """The placements of a result, and the shape that this rank holds."""
    return f"{' '.join(map(str, result.placements))} {tuple(result.to_local().shape)}"


def index_put() -> torch.Tensor:
    rows = distribute_tensor(torch.tensor([0, 3]), line, [WHOLE])
    return torch.index_put(of(4, 2, to=WHOLE), (rows,), of(2, 2, to=Shard(0)))


def convolution() -> torch.Tensor:
    return conv2d(of(1, 2, 4, 4, to=WHOLE), of(4, 2, 2, 2, to=Shard(0)), of(4, to=WHOLE), stride=2)


def tensor_split() -> torch.Tensor:
    return torch.tensor_split(of(4, to=WHOLE), distribute_tensor(torch.tensor([1]), line, [WHOLE]))[0]


FAULTS = {
    "t": (lambda: of(4, to=Shard(0)).t(), "S(0) (2,)"),
    "squeeze": (lambda: of(2, 3, 1, to=Shard(0)).squeeze(), "S(0) (1, 3)"),
    "stack": (lambda: torch.stack([of(2, 4, to=Shard(1))] * 3, dim=-1), "S(1) (2, 2, 3)"),
    "pad": (lambda: pad(distribute_tensor(torch.rand(4), grid, [Shard(0), WHOLE]), (1, 1)), "R R (6,)"),
    "amin": (lambda: of(1, to=Shard(0)).amin(), local(of(2, to=Shard(0)).amin())),
    "index_put": (index_put, "R (4, 2)"),
    "convolution": (convolution, "R (1, 4, 2, 2)"),
    "tensor_split": (tensor_split, "R (1,)"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, expected = FAULTS[name]
    try:
        actual = local(call())
    except (IndexError, RuntimeError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected {expected}, actual {actual[:160]!r}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
