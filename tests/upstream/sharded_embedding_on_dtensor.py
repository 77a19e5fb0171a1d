"""What fails with the output of an embedding whose rows are sharded over a DTensor mesh; names select.

The output is a partial sum with a mask of the rows that other ranks hold. The mask has the shape of the
lookup, and it is released when the sum is first computed. A linear layer flattens the sum, and not the mask.

torch 2.9.0 and 2.15.0, one of two ranks of torch's fake process group. Exits 0 when the faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
tokens = distribute_tensor(torch.arange(8).reshape(2, 4), mesh, [Replicate()])


def viewed(output: torch.Tensor) -> torch.Tensor:
    return functional.linear(output, distribute_tensor(torch.rand(3, 3), mesh, [Replicate()]))


FAULTS = {
    "used_twice": (lambda output: output.relu() + output.relu(), "AssertionError: "),
    "viewed": (viewed, "IndexError: The shape of the mask [2, 4]"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    rows = distribute_tensor(torch.rand(8, 3), mesh, [Shard(0)])
    try:
        actual = str(call(functional.embedding(tokens, rows)).shape)
    except (AssertionError, IndexError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected torch.Size([2, 4, 3]), actual {actual}")
    missing += [] if actual.startswith(fault) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
