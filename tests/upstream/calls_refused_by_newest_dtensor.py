"""Calls in place and with an `out`, gradients of scatters and a GRU, which fail; names select.

torch 2.15.0; torch 2.9.0 computes the first two. The process group is torch's fake one. Exits 0 if all faults
are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()])


def of(*shape: int) -> DTensor:
    return whole(*shape).requires_grad_()


MIXED = "got mixed torch.Tensor and DTensor"


FAULTS = {
    "amax_out": (lambda: torch.amax(whole(4, 3), 0, out=whole(3)), "Strategy length 2 != expected 3"),
    "quantile_out": (
        lambda: torch.quantile(whole(4), 0.5, out=whole()),
        "doesn't match the broadcast shape [1]",
    ),
    "diagonal_scatter": (lambda: torch.diagonal_scatter(of(4, 4), of(4)).sum().backward(), MIXED),
    "gru": (lambda: distribute_module(torch.nn.GRU(2, 2, 2), mesh)(of(3, 2)), MIXED),
    "select_scatter": (lambda: torch.select_scatter(of(4, 4), of(4), 0, 0).sum().backward(), MIXED),
    "t_backward": (
        lambda: (of(2, 1) * 1).t_().sum().backward(),
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
