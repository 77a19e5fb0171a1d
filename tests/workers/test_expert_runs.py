"""Experts in real processes: every way of rows agrees, and a planted fault shows."""

from typing import Any

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace, shared
from sharded_cases import S0, S1, R, a_sharded_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layers.routed_experts import RoutedExperts
from difftest.cases.layout import Mesh, Placements, Shard
from difftest.cases.model import Model
from difftest.cases.wrapping import Dispatch, Exchange, Product
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_experts"
STEPS = Training(steps=2, optimizer="momentum", learning_rate=0.0625, clip_norm=0.25, accumulation=2)
S2 = Shard(2)
EP = Mesh((("ep", 2),))
RISING, FALLING = "1.1.routed.rising", "1.1.routed.falling"


def with_experts(
    mesh: Mesh = EP,
    placed: dict[str, Placements] | None = None,
    *,
    training: Training = STEPS,
    dispatch: Dispatch | None = None,
    **fields: Any,  # noqa: ANN401  of the experts
) -> Case:
    experts = RoutedExperts(width=8, hidden=8, experts=4, **{"top": 2, "lean": 0.25, **fields})
    model = Model(
        layers=(
            Linear(inputs=3, outputs=8),
            Residual(layers=(RMSNorm(width=8), experts)),
            Linear(inputs=8, outputs=4),
        )
    )
    batch = tuple(R if name == "tp" else S0 for name in mesh.names)
    at: dict[str, Placements] = {RISING: (S0,), FALLING: (S0,)} if placed is None else placed
    case = a_sharded_case(mesh, batch, at, model=model, training=training)
    rows = 4 * mesh.world_size * training.accumulation
    return msgspec.structs.replace(
        case, path="experts", dispatch=dispatch or Dispatch(), data=Data(batch=rows)
    )


def assert_agrees(case: Case, backend: str = BACKEND) -> None:
    outcome = sandbox.run(case, backend)
    assert agrees(case, backend, outcome), outcome


NN: Exchange = "nn"
LOOP: Product = "loop"
WHOLE: Exchange = "whole"
EXCHANGES: tuple[Exchange, ...] = ("functional", "nn", "padded", "gathered", WHOLE)
PRODUCTS: tuple[Product, ...] = ("grouped", "batched")
WAYS = {
    way: with_experts(dispatch=Dispatch(exchange=way[0], product=way[1]), shared=4)
    for way in (*((one, LOOP) for one in EXCHANGES), *((NN, one) for one in PRODUCTS), (WHOLE, PRODUCTS[1]))
}
"""A case of every exchange of rows, and of every product."""

by_its_way = shared(WAYS, BACKEND)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_every_way_of_rows_agrees(way: tuple[Exchange, Product]) -> None:
    """The reference has all rows in one process, so that it is the same for all ways."""
    truth = oracle_trace(WAYS[NN, LOOP])
    comparison = compare(WAYS[way], BACKEND, "torch", truth, by_its_way(way))
    assert comparison.verdict == "agree", comparison.divergences[:1]


@pytest.mark.parametrize("exchange", ["functional", "gathered"])
def test_choices_beyond_the_capacity_are_dropped_in_the_order_of_the_batch(exchange: Exchange) -> None:
    assert_agrees(with_experts(dispatch=Dispatch(exchange=exchange), capacity=2))


@pytest.mark.parametrize(
    ("mesh", "placed"),
    [
        (EP, {"": (S0,)}),
        (Mesh((("ep", 2), ("tp", 2))), {RISING: (S0, S2), FALLING: (S0, S1)}),
        (Mesh((("dp_shard", 2), ("ep", 2))), {"": (R, S0), RISING: (S1, S0), FALLING: (S1, S0)}),
        (Mesh((("dp_shard", 2), ("ep", 2))), {"": (R, S0), RISING: (S0, S0), FALLING: (S0, S0)}),
    ],
    ids=["all sharded", "tensor parallel", "fully sharded", "fully sharded along the experts"],
)
def test_axes_beside_the_experts_agree(mesh: Mesh, placed: dict[str, Placements]) -> None:
    assert_agrees(with_experts(mesh, placed, capacity=3))


def test_an_expert_without_rows_has_a_gradient_of_zeros() -> None:
    assert_agrees(with_experts(lean=1.0, top=1))


@pytest.mark.parametrize("form", ["one_hot", "gather"])
def test_both_forms_of_slots_agree_on_xla(form: str) -> None:
    pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = with_experts(
        dispatch=msgspec.convert({"form": form}, Dispatch), capacity=3, training=Training(steps=2)
    )
    assert_agrees(case, "xla_spmd")


@pytest.mark.parametrize(
    ("fault", "backend", "case"),
    [
        ("rows_dropped", BACKEND, with_experts()),
        ("results_unsorted", BACKEND, with_experts()),
        ("experts_not_divided", BACKEND, with_experts()),
        ("stale_experts", BACKEND, with_experts()),
        (
            "lost_sum_over_tp",
            BACKEND,
            with_experts(Mesh((("ep", 2), ("tp", 2))), {RISING: (S0, S2), FALLING: (S0, S1)}),
        ),
        ("capacity_of_each_rank", BACKEND, with_experts(capacity=1, lean=1.0)),
        ("experts_shifted", BACKEND, with_experts()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_fault_of_experts_shows(fault: str, backend: str, case: Case) -> None:
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: fault})
    assert isinstance(outcome, Trace), outcome
    assert compare(case, backend, "torch", oracle_trace(case), outcome).divergences
