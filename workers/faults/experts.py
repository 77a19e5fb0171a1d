"""Planted faults of experts: rows that are lost, mixed up or miscounted, and gradients of the wrong size.

No case without experts can show one.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.routed_experts import RoutedExperts
from difftest.cases.routed import EXPERTS, TENSOR, routed
from difftest.judge.stage import Stage
from workers.faults import BACKEND, SHARDING, Plant, PlantedFault, planted
from workers.training.expert_rows import Routed
from workers.training.session import Session
from workers.training.wrapped_names import parameters

OF_RANKS = ("torch_experts",)


def _layers(case: Case) -> list[RoutedExperts]:
    return [layer for _, layer in walk(case.model.layers) if isinstance(layer, RoutedExperts)]


def _of_experts(
    *,
    about: str,
    reaches: Callable[[Case], bool],
    backends: tuple[str, ...] = OF_RANKS,
    blame: str = SHARDING,
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for the cases of the path `experts` that have several ranks."""

    def on_ranks(case: Case) -> bool:
        return bool(_layers(case)) and case.layout.mesh.size(EXPERTS) > 1 and reaches(case)

    return planted(about=about, backends=backends, blame=blame, reaches=on_ranks, paths=("experts",))


def _spread(case: Case) -> bool:
    """Whether rows go to experts of several ranks for certain."""
    return all(layer.lean < 1.0 and layer.capacity is None for layer in _layers(case)) and case.data.batch > 2  # noqa: PLR2004  one row goes to one rank


def _of_results(case: Case, change: Callable[[Tensor], Tensor]) -> None:
    """Changes what a rank's experts give for the rows of all ranks, in the order of the experts."""
    if case.world_size == 1:
        return
    from workers.torch.expert_parallel import ExpertRank

    right = ExpertRank._multiplied  # noqa: SLF001  where the rows of all ranks are

    def multiplied(rank: ExpertRank, routed: Routed, rows: Tensor, counts: list[int]) -> Tensor:
        return change(right(rank, routed, rows, counts))

    ExpertRank._multiplied = multiplied  # type: ignore[method-assign, assignment]  # noqa: SLF001


@_of_experts(about="the last row that a rank receives for its experts counts as zero", reaches=_spread)
def rows_dropped(session: Session, case: Case, _rank: int) -> Session:
    """As if there were no place for it."""

    def without_last(results: Tensor) -> Tensor:
        kept = torch.arange(len(results), device=results.device) < len(results) - 1
        return results * kept.unsqueeze(-1)

    _of_results(case, without_last)
    return session


@_of_experts(about="the results of a rank's experts come back one place further", reaches=_spread)
def results_unsorted(session: Session, case: Case, _rank: int) -> Session:
    """The last result stands first."""
    _of_results(case, lambda results: results.roll(1, 0))
    return session


def _after_backward(session: Session, change: Callable[[dict[str, nn.Parameter]], None]) -> Session:
    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD:
            change(parameters(module))

    return replace(session, after=after)


@_of_experts(
    about="gradients of experts are not divided, though they add up what all ranks send",
    reaches=lambda _case: True,
)
def experts_not_divided(session: Session, case: Case, _rank: int) -> Session:
    """They are as many times too large as there are ranks with rows of their own."""

    def change(there: dict[str, nn.Parameter]) -> None:
        for name in routed(case.model):
            if (gradient := there[name].grad) is not None:
                there[name].grad = gradient * case.layout.data_ranks

    return _after_backward(session, change) if case.world_size > 1 else session


@_of_experts(
    about="one rank's experts learn what they did in the first step",
    reaches=lambda case: case.training.steps > 1 and _spread(case),
)
def stale_experts(session: Session, case: Case, rank: int) -> Session:
    """A shard is left out of every later update."""
    first: dict[str, Tensor] = {}

    def change(there: dict[str, nn.Parameter]) -> None:
        for name in routed(case.model):
            if (gradient := there[name].grad) is not None:
                there[name].grad = first.setdefault(name, gradient.clone()).clone()

    return _after_backward(session, change) if case.world_size > 1 and rank == 0 else session


@_of_experts(
    about="what the ranks over tp compute of a row's gradient is not added up",
    reaches=lambda case: (
        case.layout.mesh.size(TENSOR) > 1
        and _spread(case)
        and len(case.model.parameters()) > len(routed(case.model))
    ),
)
def lost_sum_over_tp(session: Session, case: Case, _rank: int) -> Session:
    """A lost all-reduce over one mesh axis, in the backward pass alone."""
    if case.world_size == 1:
        return session
    from torch.distributed.tensor import Replicate

    from workers.torch import expert_parallel

    expert_parallel.SUMMED = Replicate()
    return session


@_of_experts(
    about="the capacity of an expert counts the rows of each rank by themselves",
    reaches=lambda case: any(layer.capacity == 1 and layer.lean >= 1.0 for layer in _layers(case)),
)
def capacity_of_each_rank(session: Session, case: Case, _rank: int) -> Session:
    """Rows of later ranks find places that are taken."""
    if case.world_size == 1:
        return session
    from workers.torch.expert_parallel import ExpertRank

    def before(_rank: ExpertRank, counts: Tensor) -> Tensor:
        return torch.zeros_like(counts)

    ExpertRank._before = before  # type: ignore[method-assign, assignment]  # noqa: SLF001
    return session


@_of_experts(
    about="rows go to the expert behind theirs",
    reaches=_spread,
    backends=(*OF_RANKS, "xla_spmd"),
    blame=BACKEND,
)
def experts_shifted(session: Session, _case: Case, _rank: int) -> Session:
    """A wrong offset."""
    right = session.operators.route

    def route(routed: Routed) -> Tensor:
        return right(replace(routed, chosen=(routed.chosen + 1) % routed.layer.experts))

    return replace(session, operators=replace(session.operators, route=route))


@_of_experts(
    about="every expert has one place less than it needs",
    reaches=lambda case: any(layer.lean >= 1.0 and layer.capacity is None for layer in _layers(case)),
    backends=("xla_spmd",),
    blame=BACKEND,
)
def slots_too_few(session: Session, _case: Case, _rank: int) -> Session:
    """The last row for an expert that takes all is dropped."""
    right = session.operators.route

    def route(routed: Routed) -> Tensor:
        capacity = min(len(routed.rows) - 1, routed.layer.capacity or len(routed.rows))
        return right(replace(routed, layer=msgspec.structs.replace(routed.layer, capacity=capacity)))

    return replace(session, operators=replace(session.operators, route=route))
