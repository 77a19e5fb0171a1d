"""`context_parallel`: every rank has pieces of each sequence, and attention goes around the ring of ranks.

torch's ring is made of CUDA's kernels, so that each rank needs a GPU.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layout import chunk, local_slices
from workers import sides
from workers.backends import _context
from workers.gpus import gpu_count
from workers.torch import devices, process_groups, ring
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.operators import Scores
    from workers.training.session import Forward, Outputs, Session

TITLE = "context_parallel"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment

PIECES = 2
"""How many pieces of a sequence a rank has: from both ends, as causal attention is more work at the end."""

HALF_TYPES = ("bfloat16", "float16")
"""What CUDA's flash kernel takes. In float32 the others compute products of TF32 (`workers.torch.flash`)."""


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why `context_parallel` does not compute the case as its layout says, or None."""
    if reason := _context.refusal(case, pieces=PIECES, attends=_masked):
        return reason
    if case.world_size == 1:
        return None
    if case.dtype not in HALF_TYPES:
        return f"attends by the flash kernel; allowed: {', '.join(HALF_TYPES)}; the case is in {case.dtype}"
    if not devices.have_nccl(case):
        return f"needs a GPU for each of {case.world_size} ranks; there are {gpu_count()}"
    return None


def _masked(layer: FlashAttention) -> str | None:
    if layer.segments or layer.bias or layer.keys != layer.length or not layer.causal:
        return "takes causal attention without a mask, a bias and cross attention"
    return None


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group, wraps the module over all ranks, and cuts the sequences of every part."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        joined = _context.wrapped(member)
        yield with_ring(member, joined) if case.world_size > 1 else joined


def with_ring(member: process_groups.Member, joined: "Session") -> "Session":
    """The session that is fed whole sequences, which `context_parallel` cuts."""
    fed = replace(
        joined,
        feed=partial(_rows, member),
        whole=partial(_own_piece, member),
        operators=replace(joined.operators, attend=partial(_attend, joined.environment)),
    )
    return replace(fed, accumulate=partial(_accumulate, member, fed))


def _rows(member: process_groups.Member, tensor: "Tensor") -> "Tensor":
    """The rows of a host tensor that are the rank's, with the whole of each sequence."""
    rows, *_ = local_slices(
        tuple(tensor.shape), member.case.layout.batch, member.case.layout.mesh, member.rank
    )
    return tensor[rows].to(member.device, copy=True)


def _accumulate(
    member: process_groups.Member,
    session: "Session",
    module: "nn.Module",
    parts: "Sequence[Sequence[Tensor]]",
    forward: "Forward",
) -> "tuple[list[Outputs], Tensor]":
    """Forward and backward of each part, in the context that has cut the part's tensors."""
    import torch
    from torch.distributed.tensor.experimental import context_parallel

    outputs, losses = list["Outputs"](), list["Tensor"]()
    for index, part in enumerate(parts):
        tensors = [session.feed(tensor) for tensor in part]
        dims = [ring.SEQUENCE] * len(tensors)
        cut = context_parallel(member.mesh[ring.AXIS], buffers=tensors, buffer_seq_dims=dims)
        with session.quiet(module, index == len(parts) - 1), cut:
            given, loss = forward(*tensors)
            with session.observe("backward", module):
                (loss * session.scale).backward()
        outputs.append(given)
        losses.append(session.total(loss.detach()))
    return outputs, torch.stack(losses).sum()


def _own_piece(member: process_groups.Member, output: "Tensor") -> "Tensor":
    """The output at the layout's piece of the sequence.

    A rank computes other positions: pieces from both ends, so that causal attention is as much work for each.
    """
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard

    ranks = member.mesh[ring.AXIS]
    (whole,) = context_parallel_unshard(ranks, [output.detach()], [ring.SEQUENCE])
    own = chunk(whole.shape[ring.SEQUENCE], ranks.size(), ranks.get_local_rank())
    return whole[:, own]


def _attend(
    environment: dict[str, str], query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores"
) -> "Tensor":
    """`scaled_dot_product_attention` by the flash kernel, whose name goes into the environment."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    kernel = SDPBackend.FLASH_ATTENTION
    environment["sdpa"] = kernel.name.lower()
    grouped = query.shape[1] != key.shape[1]
    with sdpa_kernel(kernel):
        return scaled_dot_product_attention(
            query, key, value, is_causal=scores.causal, scale=scores.scale, enable_gqa=grouped
        )
