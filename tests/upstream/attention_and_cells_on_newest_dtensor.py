"""Attention over sharded heads, gradients of attention and pooling, and `tanh_` of a partial sum fail.

torch 2.15.0. The group is a fake one. A name runs one fault alone. Exits 0 if all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.functional import avg_pool2d, scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def images() -> DTensor:
    return distribute_tensor(torch.rand(2, 2, 4, 4), mesh, [Replicate()]).requires_grad_()


def attention() -> DTensor:
    query = distribute_tensor(torch.rand(2, 2, 3, 4), mesh, [Replicate()])
    return scaled_dot_product_attention(query, *[query.redistribute(placements=[Shard(3)])] * 2)


FAULTS = {
    "head_dim": (attention, "Q/K/V should have the same head size"),
    "attention_gradient": (
        lambda: scaled_dot_product_attention(*[images()] * 3).sum().backward(),
        "_scaled_dot_product_flash_attention_for_cpu_backward.default does not have a sharding strategy",
    ),
    "pooling_gradient": (
        lambda: avg_pool2d(images(), 2).sum().backward(),
        "aten.avg_pool2d_backward.default does not have a sharding strategy",
    ),
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
    except (NotImplementedError, RuntimeError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a result, actual {actual[:160]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
