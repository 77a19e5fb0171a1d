"""`DistributedDataParallel`: whole parameters on every rank, gradients averaged in buckets."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from difftest.case import Case
from difftest.layout import Shard
from workers import torch_side

if TYPE_CHECKING:
    from torch import nn

    from workers.session import Session

SIDE = "torch"
PRELOAD = torch_side.PRELOAD
processes = torch_side.processes


def unsupported(case: Case) -> str | None:
    """Layouts with a sharded parameter, or a batch that is cut along another dim than its rows."""
    if any(isinstance(p, Shard) for placements in case.layout.parameters.values() for p in placements):
        return "DistributedDataParallel keeps every parameter whole; the layout shards one"
    if not torch_side.cuts_rows_only(case):
        return "DistributedDataParallel is fed rows; the layout cuts the batch along the sequence"
    return None


def environment(_case: Case) -> dict[str, str]:
    """Nothing special."""
    return {}


@contextmanager
def session(case: Case, rank: int, rendezvous: str) -> Iterator["Session"]:
    """Wraps the module; all ranks are one group."""
    with torch_side.joined(case, rank, rendezvous) as member:
        yield torch_side.local_session(member, partial(_place, member), _quiet)


def _place(member: torch_side.Member, module: "nn.Module") -> "nn.Module":
    from torch.nn.parallel import DistributedDataParallel

    devices = [member.device] if member.device.type == "cuda" else None
    return DistributedDataParallel(module.to(member.device), device_ids=devices)


def _quiet(module: "nn.Module", last: bool) -> AbstractContextManager[None]:  # noqa: FBT001  the session's signature
    from torch.nn.parallel import DistributedDataParallel

    assert isinstance(module, DistributedDataParallel)  # noqa: S101  placed above
    return nullcontext() if last else module.no_sync()
