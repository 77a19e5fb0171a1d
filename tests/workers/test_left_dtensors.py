"""Activations that leave DTensors and come back: right where torch is told how; two faults are found."""

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace
from sharded_cases import S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Mesh, Placements, Shard
from difftest.cases.model import Model
from difftest.cases.options import Spelling
from difftest.judge.comparator import compare
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_dtensor"
LEAVING = Redistribute(width=4, dims=(None,), by="to_local")


def split(**forms: bool) -> Case:
    """Two Linear layers in Megatron's pattern, of which the second gives a partial sum that leaves."""
    layers = (Linear(inputs=6, outputs=8), Linear(inputs=8, outputs=4, bias=False), LEAVING)
    model = Model(layers=(*layers, Linear(inputs=4, outputs=3)))
    placed: dict[str, Placements] = {"0.weight": (S0,), "0.bias": (S0,), "1.weight": (Shard(1),)}
    case = a_sharded_case(Mesh((("tp", 2),)), (R,), placed, model=model, training=Training(steps=1))
    return msgspec.structs.replace(case, spelling=Spelling(**forms))


def rows(count: int, **forms: bool) -> Case:
    """Rows that two ranks share."""
    model = Model(layers=(Linear(inputs=6, outputs=4), LEAVING, Linear(inputs=4, outputs=3)))
    case = a_sharded_case(Mesh((("dp", 2),)), (S0,), model=model, rows=count, training=Training(steps=1))
    return msgspec.structs.replace(case, spelling=Spelling(**forms))


@pytest.mark.parametrize(
    "case",
    [split(), split(local_map=True), rows(6, local_map=True), rows(6, bare_to_local=True)],
    ids=["told", "local_map", "even rows", "nothing to tell"],
)
def test_activations_come_back_as_they_left(case: Case) -> None:
    assert agrees(case, BACKEND, sandbox.run(case, BACKEND))


@pytest.mark.parametrize("mapped", [False, True])
def test_the_gradient_of_a_partial_sum_that_nobody_told_is_found(mapped: bool) -> None:
    case = split(bare_to_local=True, local_map=mapped)
    compared = compare(case, BACKEND, "torch", oracle_trace(case), sandbox.run(case, BACKEND))
    assert compared.divergences[0].check == "gradients"


def test_what_local_map_makes_of_uneven_rows_is_found() -> None:
    case = rows(5, local_map=True)
    compared = compare(case, BACKEND, "torch", oracle_trace(case), sandbox.run(case, BACKEND))
    assert compared.verdict == "diverge"
