"""What context parallelism is made of: sequences in pieces over `cp`, and a wrapper over all ranks.

The wrapper averages over the ranks along the sequence too. Where the layout replicates the parameters it is
`DistributedDataParallel`, and else `fully_shard`, which shards over `cp`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.flash_attention import FlashAttention
from workers.backends import torch_ddp, torch_fsdp
from workers.torch import process_groups
from workers.torch.ring import AXIS

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session


def refusal(case: Case, *, pieces: int, attends: Callable[[FlashAttention], str | None]) -> str | None:
    """Why the case cannot be computed on as many equal `pieces` of the sequence a rank, or None.

    `attends` says why an attention cannot.
    """
    return _no_pieces(case, pieces) or _no_wrapper(case) or _no_attention(case, attends)


def _no_pieces(case: Case, pieces: int) -> str | None:
    layout = case.layout
    if case.world_size > 1 and AXIS not in layout.sequence_axes:
        return f"cuts the sequence over the axis {AXIS}; the layout does not"
    if case.world_size > 1 and {AXIS, *layout.batch_axes} != {*layout.mesh.names}:
        return f"the axes beside {AXIS} cut the batch by rows; the layout has another use for one"
    pieces *= layout.mesh.size(AXIS)
    if not case.model.sequence or case.model.sequence % pieces:
        return f"takes sequences of a multiple of {pieces} positions; the model's has {case.model.sequence}"
    return None


def _no_attention(case: Case, attends: Callable[[FlashAttention], str | None]) -> str | None:
    for _, layer in walk(case.model.layers):
        if isinstance(layer, FlashAttention):
            if reason := attends(layer):
                return reason
        elif layer.ATTENTION_QUERIES or not layer.TAKES_PIECES:
            return f"joins pieces of the sequence in flash attention alone; {layer.title} needs the whole"
    return None


def _no_wrapper(case: Case) -> str | None:
    """Why neither wrapper gives the parameters their placements, or None."""
    if case.world_size == 1 or case.layout.replicates:
        return None
    if case.forms.optimizer_before:
        return "fully_shard replaces the parameters, and its documentation has the optimizer made after it"
    axes = case.layout.mesh.names
    if len(axes) > 2:  # noqa: PLR2004  one to replicate over, one to shard over
        return "fully_shard shards over one axis and replicates over one; the mesh has more"
    return torch_fsdp.refusal(case, axes)


def wrapped(member: process_groups.Member) -> "Session":
    """The session of the wrapper that the layout needs, fed the rank's piece of its rows."""
    case = member.case
    if case.world_size == 1 or case.layout.replicates:
        quiet = partial(torch_ddp.quiet, case.replication)
        return process_groups.local_session(member, partial(torch_ddp.place, member), quiet)

    def place(module: "nn.Module") -> "nn.Module":
        return torch_fsdp.shard(case, module.to(member.device), member.mesh)

    sharded = process_groups.local_session(member, place, partial(torch_fsdp.quiet, case))
    return torch_fsdp.with_options(case, sharded)
