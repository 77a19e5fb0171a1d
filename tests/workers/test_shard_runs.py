"""Further options of `fully_shard` and Muon in real processes: they agree, and faults show."""

from typing import Any

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace, together
from sharded_cases import HYBRID, S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh, Placements
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption
from difftest.cases.wrapping import Sharding
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from workers import faults
from workers.backends import torch_tp
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

FSDP = "torch_fsdp"
PAIR = Mesh((("dp_shard", 2),))
PARTS = Training(steps=3, accumulation=2, optimizer="adam", learning_rate=0.0078125)
TOKENS = Model(
    sequence=4,
    layers=(Embedding(vocabulary=12, width=8), Linear(inputs=8, outputs=8), Linear(inputs=8, outputs=6)),
)
PLAIN = Model(layers=(Linear(inputs=6, outputs=8), Linear(inputs=8, outputs=4)))


def sharded(mesh: Mesh = PAIR, model: Model = PLAIN, ignored: str = "", **options: Any) -> Case:  # noqa: ANN401
    """A case whose parameters but an ignored one are sharded, with these options of `fully_shard`."""
    axes = len(mesh.axes)
    whole: Placements = (R,) * axes
    placed: dict[str, Placements] = {"": (*whole[1:], S0)}
    if ignored:
        placed[ignored] = whole
    case = a_sharded_case(mesh, (S0,) * axes, placed, training=PARTS, model=model)
    return msgspec.structs.replace(case, sharding=Sharding(ignored=ignored or None, **options))


def test_an_ignored_parameter_beside_tensor_parallelism_is_refused() -> None:
    case = sharded(Mesh((("dp_shard", 2), ("tp", 1))), ignored="0.weight")
    assert "averaged over all ranks" in str(torch_tp.unsupported(case))


def by_muon(*, nesterov: bool) -> Case:
    options: dict[str, FeatureOption] = {"nesterov": nesterov, "rate": 0.03125}
    return msgspec.structs.replace(sharded(), features=(Feature(name="muon", options=options),))


WAITING = msgspec.structs.replace(sharded(), features=(Feature(name="optimizer_event"),))
AGREEING = {
    "ahead": sharded(prefetched="both", wrapped="layers"),
    "kept": sharded(kept_between=True),
    "kept, every part": sharded(HYBRID, kept_between=True, synced="every"),
    "resting": sharded(model=TOKENS, embeddings_resting=True, wrapped="layers"),
    "ignored": sharded(ignored="0.weight"),
    "ignored, hybrid": sharded(HYBRID, ignored="1.bias", wrapped="layers"),
    "older name": sharded(by_older_name=True, gradient_divide_factor=4.0, summed=True),
    "event": WAITING,
    "muon": by_muon(nesterov=True),
    "muon without nesterov": by_muon(nesterov=False),
}


def test_training_agrees_with_every_further_option() -> None:
    outcomes = together(list(AGREEING.values()), FSDP)
    wrong = [
        (name, outcome)
        for (name, case), outcome in zip(AGREEING.items(), outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, FSDP, outcome)
    ]
    assert wrong == []


def test_a_gradient_scaler_beside_an_ignored_parameter_fails_which_is_known() -> None:
    scaled = Feature(name="gradient_scaler", options={"step": 0})
    case = msgspec.structs.replace(AGREEING["ignored"], features=(scaled,))
    outcome = sandbox.run(case, FSDP)
    (first,) = compare(case, FSDP, "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith("gradient_scaler_beside_ignored_parameters.py")


PLANTED = {
    "gathered_ahead_wrong": AGREEING["ahead"],
    "kept_over_updates": AGREEING["kept"],
    "resting_untrained": AGREEING["resting"],
    "ignored_not_averaged": AGREEING["ignored"],
    "older_name_ignored": AGREEING["older name"],
    "event_loses_update": WAITING,
    "orthogonal_by_shard": AGREEING["muon"],
    "orthogonal_steps_short": AGREEING["muon"],
}


def test_every_planted_fault_of_shards_has_a_case() -> None:
    assert {name for name, fault in faults.all_faults().items() if fault.paths == ("shards",)} == {*PLANTED}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_shows_with_its_option_alone(fault: str) -> None:
    planted, case = faults.all_faults()[fault], PLANTED[fault]
    assert planted.reaches(case)
    assert not planted.reaches(sharded())
    backend = FSDP if FSDP in planted.backends else planted.backends[0]
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: fault})
    assert compare(case, backend, "torch", oracle_trace(case), outcome).verdict == "diverge"
