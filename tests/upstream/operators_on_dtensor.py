"""Operators that DTensor's rules fail at, each without need of a second rank; a name runs it alone.

torch 2.9.0. The process group is torch's fake one. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()]).requires_grad_()


def cut(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Shard(0)]).requires_grad_()


def fused_adam() -> None:
    lists = [[cut(4)] for _ in range(4)]
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    torch.ops.aten._fused_adam(*lists, [], [torch.ones(())], **options, amsgrad=False, maximize=False)  # noqa: SLF001


def index_select() -> None:
    index = distribute_tensor(torch.tensor([0]), mesh, [Replicate()])
    whole(4, 4).index_select(-1, index)


MIXED = "got mixed torch.Tensor and DTensor"
FAULTS = {
    "expand": (lambda: cut(1, 3).expand(5, 3), "aten.expand.default"),
    "sort_backward": (lambda: whole(4, 3).sort(0).values.sum().backward(), MIXED),
    "prod_backward": (lambda: whole(4, 3).prod(0).sum().backward(), MIXED),
    "block_diag": (lambda: torch.block_diag(whole(1, 5), whole(2, 5)), "found no DeviceMesh"),
    "chunk_cat": (lambda: torch._chunk_cat([whole(2, 5)], 0, 2), "found no DeviceMesh"),  # noqa: SLF001
    "fused_adam": (fused_adam, "aten._fused_adam"),
    "index_select": (index_select, "aten.index_select.default"),
    "empty_uneven": (lambda: cut(1, 0, 3), "negative output size"),
    "empty_view": (lambda: whole(2, 0).view(0), "aten.view.default"),
    "view_as_real": (lambda: torch.view_as_real(whole().to(torch.complex64)), "aten.view_as_real"),
    "equal": (lambda: torch.equal(cut(4), whole()), "at least a 1-dimensional"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, message = FAULTS[name]
    try:
        print(f"{name}: expected a result, actual {call()}")
        missing.append(name)
    except (AssertionError, RuntimeError) as error:
        print(f"{name}: expected a result, actual {type(error).__name__}: {str(error)[:160]!r}")
        missing += [] if message in str(error) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
