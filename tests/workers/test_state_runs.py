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


LINE = Mesh((("dp_shard", 4),))
ON_SPMD = [moved(LINE, layout=layout) for layout in ("columns", "grid", "sharded")]
ON_SPMD.append(moved(LINE, layout="columns", wide=True))


@pytest.mark.xla
def test_a_checkpoint_of_spmd_that_goes_through_another_layout_changes_nothing() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    wrong = [
        (case.training_features[0].options, outcome)
        for case, outcome in zip(ON_SPMD, together(ON_SPMD, "xla_spmd"), strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, "xla_spmd", outcome)
    ]
    assert wrong == []


@pytest.mark.xla
@pytest.mark.parametrize("options", [{"layout": "hybrid"}, {"layout": "columns", "files": "safetensors"}])
def test_what_torch_xla_does_not_save_of_shards_is_found(options: dict[str, FeatureOption]) -> None:
    """`checkpoint_of_partly_replicated_on_xla`, and `safetensors_of_several_shards_on_xla`."""
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = moved(LINE, **options)
    outcome = sandbox.run(case, "xla_spmd")
    assert compare(case, "xla_spmd", "xla", oracle_trace(case), outcome).verdict == "diverge"


@pytest.mark.xla
def test_a_planted_fault_of_what_spmd_loads_from_another_layout_shows() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = moved(LINE, layout="columns")
    outcome = sandbox.run(case, "xla_spmd", options={faults.VARIABLE: "moved_a_row_off"})
    compared = compare(case, "xla_spmd", "xla", oracle_trace(case), outcome)
    assert compared.divergences[0].check in {"loss", "parameters"}


@pytest.mark.parametrize("fault", ["moved_in_bfloat16", "moved_without_moments"])
def test_a_planted_fault_of_a_moved_checkpoint_shows(fault: str) -> None:
    case = moved()
    assert faults.all_faults()[fault].reaches(case)
    outcome = sandbox.run(case, "torch_fsdp", options={faults.VARIABLE: fault})
    assert compare(case, "torch_fsdp", "torch", oracle_trace(case), outcome).verdict == "diverge"
    plain = msgspec.structs.replace(case, features=())
    assert not faults.all_faults()[fault].reaches(plain)
