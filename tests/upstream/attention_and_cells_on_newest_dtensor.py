"""Attention over keys whose last dim is sharded fails, and so does `tanh_` of a partial sum, as in a GRU.

torch 2.15.0. The group is a fake one. A name runs one fault alone. Exits 0 if all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def attention() -> DTensor:
    query = distribute_tensor(torch.rand(2, 2, 3, 4), mesh, [Replicate()])
    return scaled_dot_product_attention(query, *[query.redistribute(placements=[Shard(3)])] * 2)


FAULTS = {
    "head_dim": (attention, "Q/K/V should have the same head size"),
    "tanh_": (
        lambda: DTensor.from_local(torch.rand(4, 6), mesh, [Partial()]).tanh_(),
        "aten.tanh_.default: in-place operations that require placement changes are not supported",
    ),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    try:
        actual = str(call())
    except RuntimeError as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a result, actual {actual[:160]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
