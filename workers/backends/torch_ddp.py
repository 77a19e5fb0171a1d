"""`DistributedDataParallel`: whole parameters on every rank, gradients averaged in buckets."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Shard
from difftest.cases.options import Replication
from workers import sides
from workers.torch import devices, process_groups
from workers.training.refusals import for_modules_only, mixed_rows

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed import ProcessGroup

    from workers.training.session import Session

TITLE = "DDP"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why the layout is not replication of the parameters over rows of the batch, or None."""
    if any(isinstance(p, Shard) for placements in case.layout.parameters.values() for p in placements):
        return "DistributedDataParallel keeps every parameter whole; the layout shards one"
    if not process_groups.cuts_rows_only(case):
        return "DistributedDataParallel takes whole rows; the layout cuts the batch along the sequence"
    return mixed_rows(case)


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and wraps the module; all ranks are one group."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        yield process_groups.local_session(member, partial(place, member), partial(quiet, case.replication))


def place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """The module on the rank's device, wrapped over all ranks."""
    own = [member.device] if member.device.type == "cuda" else None
    return wrap(member.case, start(member.case, member.rank, module).to(member.device), own)


def wrap(
    case: Case,
    module: "nn.Module",
    devices: "list[torch.device] | None" = None,
    group: "ProcessGroup | None" = None,
) -> "nn.Module":
    """`DistributedDataParallel` around a module that is on its device already, by default over all ranks."""
    from torch.nn.parallel import DistributedDataParallel

    options = case.replication
    return DistributedDataParallel(
        module,
        device_ids=devices,
        process_group=group,
        broadcast_buffers=options.broadcast_buffers,
        bucket_cap_mb=options.bucket_cap_mb,
        find_unused_parameters=options.find_unused_parameters,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
        static_graph=options.static_graph,
        init_sync=not case.forms.no_broadcast,
    )


def start(case: Case, rank: int, module: "nn.Module") -> "nn.Module":
    """The module on the host as `rank` starts with it.

    Where the case says so the rank has weights of its own, which rank 0's must replace.
    """
    import torch

    if case.replication.own_weights:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(rank)
    return module


def quiet(
    options: Replication,
    module: "nn.Module",
    last: bool,  # noqa: FBT001  the session's signature
) -> AbstractContextManager[None]:
    """Reduces gradients in the last accumulation part only, unless the options request every part."""
    from torch.nn.parallel import DistributedDataParallel

    assert isinstance(module, DistributedDataParallel)  # noqa: S101  placed above
    return nullcontext() if last or not options.no_sync else module.no_sync()
