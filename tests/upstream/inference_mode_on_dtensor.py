"""What fails for DTensors under `torch.inference_mode` and works without it; a name runs it alone.

torch 2.9.0 and 2.15.0. The process group is torch's fake one. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.functional import embedding, interpolate
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
numbers, result = (distribute_tensor(torch.rand(2, 3, 4), mesh, [Replicate()]) for _ in range(2))
rows, table = torch.zeros(3, dtype=torch.int64), distribute_tensor(torch.rand(6, 4), mesh, [Shard(0)])

FAULTS = {
    "min_out": lambda: torch.min(numbers, numbers, out=result),
    "reshape": lambda: numbers.sum().reshape(()),
    "view": lambda: numbers.transpose(0, 1),
    "embedding": lambda: embedding(distribute_tensor(rows, mesh, [Replicate()]), table),
    "interpolate": lambda: interpolate(numbers, 3, mode="linear"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    FAULTS[name]().full_tensor()
    try:
        with torch.inference_mode():
            made = FAULTS[name]()
        made.full_tensor()
        missing.append(name)
        print(f"{name}: expected a result, actual a result")
    except RuntimeError as error:
        print(f"{name}: expected a result, actual {str(error).splitlines()[0][:160]!r}")
sys.exit(f"not there: {missing}" if missing else 0)
