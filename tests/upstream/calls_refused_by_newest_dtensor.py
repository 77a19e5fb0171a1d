"""In-place calls, and calls with an `out`, fail for DTensors; names select. Exits 0 if all faults are there.

torch 2.15.0; torch 2.9.0 computes the first two. The process group is torch's fake one.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()])


FAULTS = {
    "amax_out": (lambda: torch.amax(whole(4, 3), 0, out=whole(3)), "Strategy length 2 != expected 3"),
    "quantile_out": (
        lambda: torch.quantile(whole(4), 0.5, out=whole()),
        "doesn't match the broadcast shape [1]",
    ),
    "t_backward": (
        lambda: (whole(2, 1).requires_grad_() * 1).t_().sum().backward(),
        "returned an invalid gradient at index 0 - got [1, 2]",
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
