"""Planted faults of flash attention's segment ids under sharding.

torch_xla's wrapper had them before torch_xla 2.7 (pytorch/xla#8334). The wrapper cuts its operands by one
list of specs for the forward kernel and one for the backward kernels. A planted fault spoils the specs; the
kernels stay as they are.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from difftest.cases.case import Case
from workers.faults import SHARDING, planted
from workers.training.session import Session
from workers.xla.flash import partition_spec

IDS_FORWARD, IDS_BACKWARD = (4, 5), (7, 8)
"""The places of the ids of queries and of keys among the operands."""

FORWARD_OPERANDS, LANES = 9, 128

Local: TypeAlias = Callable[..., Any]
Specs: TypeAlias = Sequence[tuple[Any, ...] | None]
Change: TypeAlias = Callable[[Local, Specs, Specs], tuple[Local, Specs, Specs]]
"""Of what a shard computes, how operands are cut, and how results are put together."""


def _with_changed_specs(session: Session, change: Change) -> Session:
    from torch_xla.experimental import custom_kernel

    shard_map = custom_kernel._shard_map  # noqa: SLF001  the only place where the wrapper cuts

    def spoiled(local: Local, mesh: Any, operands: Specs, results: Specs) -> Local:  # noqa: ANN401
        local, operands, results = change(local, operands, results)
        cut: Local = shard_map(local, mesh, operands, results)
        return cut

    custom_kernel._shard_map = spoiled  # noqa: SLF001
    return session


def _uncut(operands: Specs, places: Sequence[int]) -> Specs:
    return [(None, None) if place in places else spec for place, spec in enumerate(operands)]


def _packed(case: Case) -> bool:
    """Whether segment ids are cut with the batch."""
    return _parts(case, 0) > 1 and any(layer.segments for layer in case.model.flash_attentions.values())


def _parts(case: Case, dim: int) -> int:
    """How many ranks cut the batch, dim 0, or the heads, dim 1."""
    axes = partition_spec(case)[dim]
    return math.prod(
        case.layout.mesh.size(name) for name in ((axes,) if isinstance(axes, str) else axes or ())
    )


def _turnable(case: Case) -> int | None:
    """The dim whose axes would cut every sequence into whole blocks, or None.

    A bias, as wide as all keys, would not fit.
    """
    layers = case.model.flash_attentions.values()
    dims = [
        dim
        for dim in (0, 1)
        if _parts(case, dim) > 1 and all(layer.keys % (LANES * _parts(case, dim)) == 0 for layer in layers)
    ]
    return dims[0] if layers and dims and not any(layer.bias for layer in layers) else None


@planted(
    about="segment ids of flash attention are not cut with the queries and keys",
    backends=("xla_spmd",),
    blame=SHARDING,
    reaches=_packed,
)
def flash_ids_not_sharded(session: Session, _case: Case, _rank: int) -> Session:
    """Before #8425: queries and keys were cut, the ids were not."""

    def change(local: Local, operands: Specs, results: Specs) -> tuple[Local, Specs, Specs]:
        ids = IDS_FORWARD if len(operands) == FORWARD_OPERANDS else IDS_BACKWARD
        return local, _uncut(operands, ids), results

    return _with_changed_specs(session, change)


@planted(
    about="flash attention cuts keys and their segment ids along the sequence, as it cuts queries and theirs",
    backends=("xla_spmd",),
    blame=SHARDING,
    reaches=lambda case: _turnable(case) is not None,
)
def flash_keys_cut_like_queries(session: Session, case: Case, _rank: int) -> Session:
    """What the review of #8333 found: keys and their ids must not be cut along the sequence.

    Queries and their ids may be.

    What cut the batch, or else the heads, cuts the sequence.
    """
    dim = _turnable(case) or 0

    def change(local: Local, operands: Specs, results: Specs) -> tuple[Local, Specs, Specs]:
        turned = list(operands[0] or ())
        turned[dim], turned[2] = turned[2], turned[dim]
        by_rank = {4: tuple(turned), 3: tuple(turned[:3]), 2: (turned[0], turned[2])}
        return (
            local,
            [spec and by_rank[len(spec)] for spec in operands],
            [spec and by_rank[len(spec)] for spec in results],
        )

    return _with_changed_specs(session, change)


@planted(
    about="the backward kernels of flash attention get segment ids that were not cut",
    backends=("xla_spmd",),
    blame=SHARDING,
    reaches=_packed,
)
def flash_backward_ids_not_sharded(session: Session, _case: Case, _rank: int) -> Session:
    """What #8425 calls the tricky part: ids are saved whole for the backward pass.

    Its kernels are made for a shard, and read the first rows.
    """

    def change(local: Local, operands: Specs, results: Specs) -> tuple[Local, Specs, Specs]:
        if len(operands) == FORWARD_OPERANDS:
            return local, operands, results

        def read_first_rows(gradient: Any, *others: Any) -> Any:  # noqa: ANN401
            arguments = [gradient, *others]
            for place in IDS_BACKWARD:
                ids = arguments[place]
                arguments[place] = None if ids is None else ids[: len(gradient)]
            return local(*arguments)

        return read_first_rows, _uncut(operands, IDS_BACKWARD), results

    return _with_changed_specs(session, change)
