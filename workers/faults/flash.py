"""The states that segment ids of flash attention had under sharding before torch_xla 2.7, planted into its wrapper (pytorch/xla#8334).

The wrapper cuts its operands by one list of specs for the forward kernel and one for the backward kernels: what is spoiled are the
specs, the kernels stay as they are.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from difftest.cases.case import Case
from workers.faults import SHARDING, Fault
from workers.training.session import Session
from workers.xla.flash import partition_spec

IDS_FORWARD, IDS_BACKWARD = (4, 5), (7, 8)
"""Where the ids of queries and of keys stand among the operands."""

FORWARD_OPERANDS, LANES = 9, 128

Local: TypeAlias = Callable[..., Any]
Specs: TypeAlias = Sequence[tuple[Any, ...] | None]
Change: TypeAlias = Callable[[Local, Specs, Specs], tuple[Local, Specs, Specs]]
"""Of what a shard computes, how operands are cut, and how results are put together."""


def _changing(change_for: Callable[[Case], Change]) -> Callable[[Session, Case, int], Session]:
    def plant(session: Session, case: Case, _rank: int) -> Session:
        from torch_xla.experimental import custom_kernel

        shard_map, change = custom_kernel._shard_map, change_for(case)  # noqa: SLF001  the only place where the wrapper cuts

        def spoiled(local: Local, mesh: Any, operands: Specs, results: Specs) -> Local:  # noqa: ANN401
            local, operands, results = change(local, operands, results)
            cut: Local = shard_map(local, mesh, operands, results)
            return cut

        custom_kernel._shard_map = spoiled  # noqa: SLF001
        return session

    return plant


def _whole_ids(local: Local, operands: Specs, results: Specs) -> tuple[Local, Specs, Specs]:
    """Before #8425: queries and keys were cut, the ids were not."""
    return (
        local,
        _uncut(operands, IDS_FORWARD if len(operands) == FORWARD_OPERANDS else IDS_BACKWARD),
        results,
    )


def _along_the_sequence(case: Case) -> Change:
    """What the review of #8333 found: where queries and their ids are cut along the sequence, keys and theirs must not be.

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

    return change


def _first_ids_backward(local: Local, operands: Specs, results: Specs) -> tuple[Local, Specs, Specs]:
    """What #8425 calls the tricky part: ids are saved whole for backward kernels that were made for a shard and read the first rows."""
    if len(operands) == FORWARD_OPERANDS:
        return local, operands, results

    def reading(gradient: Any, *others: Any) -> Any:  # noqa: ANN401
        given = [gradient, *others]
        for place in IDS_BACKWARD:
            given[place] = None if given[place] is None else given[place][: len(gradient)]
        return local(*given)

    return reading, _uncut(operands, IDS_BACKWARD), results


def _uncut(operands: Specs, places: Sequence[int]) -> Specs:
    return [(None, None) if place in places else spec for place, spec in enumerate(operands)]


def _packed(case: Case) -> bool:
    """Whether segment ids are cut with the batch."""
    return _parts(case, 0) > 1 and any(layer.segments for layer in case.model.flash_attentions.values())


def _parts(case: Case, dim: int) -> int:
    """How many ranks cut the batch, dim 0, or the heads, dim 1."""
    held = partition_spec(case)[dim]
    sizes = dict(case.layout.mesh.axes)
    return math.prod(sizes[name] for name in ((held,) if isinstance(held, str) else held or ()))


def _turnable(case: Case) -> int | None:
    """The dim whose axes would cut every sequence into whole blocks; a bias, as wide as all keys, would not fit."""
    found = case.model.flash_attentions.values()
    dims = [
        dim
        for dim in (0, 1)
        if _parts(case, dim) > 1 and all(layer.keys % (LANES * _parts(case, dim)) == 0 for layer in found)
    ]
    return dims[0] if found and dims and not any(layer.bias for layer in found) else None


FAULTS = (
    Fault(
        name="flash_ids_not_sharded",
        about="segment ids of flash attention are not cut with the queries and keys",
        backends=("xla_spmd",),
        blame=SHARDING,
        reaches=_packed,
        plant=_changing(lambda _case: _whole_ids),
    ),
    Fault(
        name="flash_keys_cut_like_queries",
        about="flash attention cuts keys and their segment ids along the sequence, as it cuts queries and theirs",
        backends=("xla_spmd",),
        blame=SHARDING,
        reaches=lambda case: _turnable(case) is not None,
        plant=_changing(_along_the_sequence),
    ),
    Fault(
        name="flash_backward_ids_not_sharded",
        about="the backward kernels of flash attention get segment ids that were not cut",
        backends=("xla_spmd",),
        blame=SHARDING,
        reaches=_packed,
        plant=_changing(lambda _case: _first_ids_backward),
    ),
)
