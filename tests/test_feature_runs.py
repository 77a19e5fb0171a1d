"""Features of training in real processes: they agree, and a planted fault shows with its feature alone."""

import math
from typing import Literal

import msgspec
import pytest
from real_runs import agrees, oracle_trace
from sharded_cases import a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layout import Mesh
from difftest.cases.options import Feature, FeatureOption
from difftest.judge.comparator import compare
from generators import features
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.training.features import schedule  # noqa: E402

OPTIONS: dict[str, dict[str, FeatureOption]] = {
    "amsgrad": {},
    "averaged_weights": {"decay": 0.5},
    "clip_by_infinity_norm": {"norm": 0.015625},
    "clip_by_value": {"value": 0.015625},
    "evaluation": {},
    "frozen": {"name": "0.weight"},
    "gradient_scaler": {"step": 1},
    "implementation": {"kind": "foreach"},
    "maximize": {},
    "parameter_groups": {"decay": 0.25},
    "save_and_load": {"step": 2},
    "schedule": {"kind": "step", "factor": 0.5},
    "zeroed_gradients": {},
}
SOON = ("clip_by_infinity_norm", "save_and_load")
"""Run with every change: one shows a fault that is known, and the other needs a state of its own."""

KNOWN_ON_XLA = {"clip_by_infinity_norm": {"on_device"}}
"""The checks that find the faults of torch_xla which the ledger knows."""

FAULTS = {name: fault for name, fault in faults.all_faults().items() if fault.paths == ("features",)}


def with_feature(name: str) -> Case:
    optimizer: Literal["adam", "momentum"] = "adam" if name == "amsgrad" else "momentum"
    training = Training(steps=4, optimizer=optimizer, learning_rate=0.0078125)
    case = a_sharded_case(Mesh((("dp", 2),)), training=training)
    return msgspec.structs.replace(case, features=(Feature(name=name, options=OPTIONS[name]),))


def test_every_feature_has_a_case_and_a_planted_fault() -> None:
    assert set(OPTIONS) == set(features.names())
    for name in OPTIONS:
        assert any(fault.reaches(with_feature(name)) for fault in FAULTS.values()), name


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_with_one_feature_only(fault: str) -> None:
    reached = [name for name in OPTIONS if FAULTS[fault].reaches(with_feature(name))]
    assert len(reached) == 1
    case = with_feature(reached[0])
    outcome = sandbox.run(case, "torch_ddp", options={faults.VARIABLE: fault})
    assert compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).verdict == "diverge"


@pytest.mark.xla
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOON else pytest.mark.nightly) for name in OPTIONS]
)
def test_a_feature_agrees_under_spmd(name: str) -> None:
    case = with_feature(name)
    comparison = compare(case, "xla_spmd", "xla", oracle_trace(case), sandbox.run(case, "xla_spmd"))
    assert {divergence.check for divergence in comparison.divergences} == KNOWN_ON_XLA.get(name, set())
    assert comparison.verdict == ("diverge" if name in KNOWN_ON_XLA else "agree")


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPTIONS)
def test_a_feature_agrees_on_replicas(name: str) -> None:
    case = with_feature(name)
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


@pytest.mark.parametrize("kind", schedule.FORMULAS)
def test_the_formula_of_a_schedule_is_that_of_torchs_scheduler(kind: str) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    scheduler = schedule.scheduler(optimizer, kind, 0.75)
    for step in range(schedule.PERIOD + 1):
        assert math.isclose(optimizer.param_groups[0]["lr"], 0.125 * schedule.FORMULAS[kind](0.75, step))
        optimizer.step()
        scheduler.step()
