"""Checkpoints that go through another layout in real processes, and what planted faults make of them."""

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace, together
from sharded_cases import HYBRID, S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
needs("safetensors", reason="needs safetensors: pip install 'difftest[xla]'")

EVEN = Model(layers=(Linear(inputs=8, outputs=8), Linear(inputs=8, outputs=4)))
ADAM = Training(steps=3, optimizer="adam", learning_rate=0.0078125)


def moved(mesh: Mesh = HYBRID, **options: FeatureOption) -> Case:
    axes = len(mesh.axes)
    case = a_sharded_case(mesh, (S0,) * axes, {"": (R,) * (axes - 1) + (S0,)}, training=ADAM, model=EVEN)
    drawn: dict[str, FeatureOption] = {"step": 1, "layout": "whole", "files": "files", "wide": False}
    return msgspec.structs.replace(
        case, features=(Feature(name="moved_checkpoint", options=drawn | options),)
    )


MOVED = [
    moved(),
    moved(layout="columns"),
    moved(layout="grid", wide=True),
    moved(layout="sharded", files="safetensors"),
    moved(layout="hybrid", files="consolidated"),
    moved(layout="whole", files="safetensors", wide=True),
]


@pytest.mark.parametrize("backend", ["torch_fsdp", pytest.param("torch_dtensor", marks=pytest.mark.nightly)])
def test_a_checkpoint_that_goes_through_another_layout_changes_nothing(backend: str) -> None:
    outcomes = together(MOVED, backend)
    wrong = [
        (case.training_features[0].options, outcome)
        for case, outcome in zip(MOVED, outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, backend, outcome)
    ]
    assert wrong == []


@pytest.mark.parametrize("fault", ["moved_in_bfloat16", "moved_without_moments"])
def test_a_planted_fault_of_a_moved_checkpoint_shows(fault: str) -> None:
    case = moved()
    assert faults.all_faults()[fault].reaches(case)
    outcome = sandbox.run(case, "torch_fsdp", options={faults.VARIABLE: fault})
    assert compare(case, "torch_fsdp", "torch", oracle_trace(case), outcome).verdict == "diverge"
    plain = msgspec.structs.replace(case, features=())
    assert not faults.all_faults()[fault].reaches(plain)
