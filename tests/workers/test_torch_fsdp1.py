"""FSDP1 in real processes: flat parameters are read as the layout has them, whatever its options."""

from typing import Any

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, together
from sharded_cases import HYBRID, S0, R, a_sharded_case

from difftest.campaign.localise import MODULE, VARIABLE
from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.cases.wrapping import Sharding
from difftest.judge.outcome import Trace
from workers.backends import torch_fsdp1
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_fsdp1"
THREE = Mesh((("dp_shard", 3),))
PARTS = Training(steps=2, accumulation=2, optimizer="adam", learning_rate=0.0625)
BLOCK = Residual(layers=(Linear(inputs=9, outputs=9),))
WITH_BLOCK = Model(layers=(Linear(inputs=6, outputs=9), BLOCK, Linear(inputs=9, outputs=5)))
MIXED = Feature(name="mixed_precision", options={"reduce": "float32", "output": "policy"})


def wrapped(mesh: Mesh = THREE, training: Training = PARTS, **told: object) -> Case:
    """Two layers and a block between them, sharded over the last axis, with these parts of a case."""
    axes = len(mesh.axes)
    at = (R,) * (axes - 1) + (S0,)
    case = a_sharded_case(mesh, (S0,) * axes, {"": at}, model=WITH_BLOCK, training=training)
    return msgspec.structs.replace(case, **told)


def sharded(mesh: Mesh = THREE, **options: Any) -> Case:  # noqa: ANN401  those of Sharding
    return wrapped(mesh, sharding=Sharding(**options))


CASES = {
    "one axis": wrapped(),
    "two axes": wrapped(HYBRID),
    "gathered until the backward pass": sharded(reshard_after_forward=False),
    "two axes, gathered until the backward pass": sharded(HYBRID, reshard_after_forward=False),
    "every part": sharded(synced="every"),
    "layers": sharded(wrapped="layers"),
    "whole": sharded(wrapped="whole"),
    "clipped": wrapped(training=msgspec.structs.replace(PARTS, clip_norm=0.125)),
    "mixed precision": wrapped(features=(MIXED,)),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    return dict(zip(CASES, together(list(CASES.values()), BACKEND), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_case_agrees(name: str, outcomes: dict[str, Any]) -> None:
    assert torch_fsdp1.unsupported(CASES[name]) is None
    assert agrees(CASES[name], BACKEND, outcomes[name])


@pytest.mark.parametrize(("kind", "refused"), [("adafactor", True), ("adagrad", False)])
def test_an_optimizer_that_needs_whole_matrices_is_refused(kind: str, refused: bool) -> None:
    other = Feature(name="optimizer", options={"kind": kind, "form": "loop", "rate": 2.0**-7})
    assert bool(torch_fsdp1.unsupported(wrapped(features=(other,)))) is refused


def test_tensors_of_modules_have_the_names_that_they_have_in_the_oracle() -> None:
    """Otherwise no place of a fault is known."""
    oracle, outcome = (sandbox.run(wrapped(), name, options={VARIABLE: "1"}) for name in ("oracle", BACKEND))
    assert isinstance(oracle, Trace)
    assert isinstance(outcome, Trace)
    expected, there = ({key for key in one.steps[0] if MODULE in key[1]} for one in (oracle, outcome))
    assert there == expected != set()
