"""Context parallel by gathering: each rank has a piece of every sequence, and attends to all keys and values.

Keys and values are gathered over `cp` by a collective that autograd differentiates, as for Llama 3
(arXiv:2407.21783, section 3.3.2).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers.flash_attention import FlashAttention
from workers import sides
from workers.backends import _context
from workers.torch import devices, process_groups, ring
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "context parallel by all-gather"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why pieces of the sequence do not compute the case as its layout says, or None."""
    return _context.refusal(case, pieces=1, attends=_cross)


def _cross(layer: FlashAttention) -> str | None:
    return None if layer.keys == layer.length else "gathers the keys of all positions; here some have none"


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and wraps the module over all ranks."""
    from workers.torch.flash import KernelAttention

    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        joined = _context.wrapped(member)
        if case.world_size == 1:  # no axis has pieces
            yield joined
            return
        attend = ring.GatheredKeys(member.mesh[ring.AXIS], KernelAttention(case, joined.environment)).attend
        yield replace(joined, operators=replace(joined.operators, attend=attend))
