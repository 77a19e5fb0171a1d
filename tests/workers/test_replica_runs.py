"""Features of replicas in real processes: they agree, and a planted fault shows with its feature alone."""

import msgspec
import pytest
from in_part import in_part
from installed_packages import needs
from real_runs import agrees, oracle_trace, together
from sharded_cases import DATA, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption, Replication, Spelling
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Failure
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

DDP = "torch_ddp"
PAIR = Mesh((("dp", 2),))
SQUARE = Model(layers=(Linear(inputs=6, outputs=9), Activation(function="tanh"), Linear(inputs=9, outputs=5)))
USUAL = Training(steps=3, optimizer="momentum", learning_rate=0.0625)
ADAM = Training(steps=3, optimizer="adam", learning_rate=0.0078125)


def featured(mesh: Mesh = DATA, training: Training = USUAL, /, **features: dict[str, FeatureOption]) -> Case:
    """A perceptron of replicas with these features."""
    case = a_sharded_case(mesh, model=SQUARE, training=training)
    used = tuple(Feature(name=name, options=options) for name, options in features.items())
    return msgspec.structs.replace(case, features=used)


def hooked(kind: str, training: Training = USUAL) -> Case:
    return featured(DATA, training, communication_hook={"kind": kind})


def local(**options: FeatureOption) -> dict[str, FeatureOption]:
    return {"period": 2, "step": 1, "together": 1} | options


def uneven(**options: FeatureOption) -> dict[str, FeatureOption]:
    return {"batches": 2, "ranks": 3, "first": True, "shrinking": False} | options


KINDS = (
    *("allreduce", "fp16_compress", "bf16_compress", "fp16_wrapper", "bf16_wrapper"),
    *("power_late", "batched_power_late", "power", "power_warm"),
)
AGREEING = {
    **{kind: hooked(kind) for kind in KINDS},
    "every part": hooked("allreduce", msgspec.structs.replace(USUAL, accumulation=2)),
    "alone": featured(PAIR, USUAL, local_steps=local()),
    "from the start, three updates, Adam": featured(PAIR, ADAM, local_steps=local(step=0, period=3)),
    "pairs": featured(local_steps=local(together=2)),
    "more on three ranks": featured(uneven_inputs=uneven()),
    "more on one, divided by it": featured(DATA, ADAM, uneven_inputs=uneven(ranks=1, shrinking=True)),
    "more on the last": featured(PAIR, USUAL, uneven_inputs=uneven(ranks=1, first=False, batches=1)),
    "bucket view": featured(PAIR, ADAM, sharded_optimizer={"bucket_view": True}),
}

REPLICAS = "xla_replica"
CLIPPED = msgspec.structs.replace(USUAL, clip_norm=0.0625, accumulation=2)
SHARDED = {
    "each tensor": featured(PAIR, USUAL, sharded_optimizer={}),
    "buckets": featured(PAIR, ADAM, sharded_optimizer={"reduced_bucket": 1, "gathered_bucket": 1}),
    "hooks, clipped": featured(DATA, CLIPPED, sharded_optimizer={"accumulation_hook": True}),
}
"""On XLA. Nine rows are padded, as none of the numbers of ranks divides them."""


def test_training_agrees_with_every_feature_of_replicas() -> None:
    outcomes = together(list(AGREEING.values()), DDP)
    wrong = [
        (name, outcome)
        for (name, case), outcome in zip(AGREEING.items(), outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, DDP, outcome)
    ]
    assert wrong == []


def test_the_batched_form_of_power_sgd_fails_where_it_begins() -> None:
    outcome = sandbox.run(hooked("batched_power"), DDP)
    assert isinstance(outcome, Failure)
    assert "len(matrices.shape) == 3" in outcome.message


def test_a_sharded_optimizer_leaves_out_what_a_rank_without_a_batch_would_update() -> None:
    case = featured(PAIR, USUAL, sharded_optimizer={}, uneven_inputs=uneven(ranks=1))
    compared = compare(case, DDP, "torch", oracle_trace(case), sandbox.run(case, DDP))
    assert compared.divergences[0].check == "parameters"


@pytest.mark.xla
def test_local_updates_are_not_for_replicas_without_a_process_group() -> None:
    outcome = sandbox.run(featured(local_steps=local()), "xla_spmd")
    assert isinstance(outcome, Failure)
    assert outcome.kind == "UnsupportedError"


@pytest.mark.xla
@pytest.mark.parametrize("name", SHARDED)
def test_a_sharded_optimizer_agrees_on_replicas_of_xla(name: str) -> None:
    assert agrees(SHARDED[name], REPLICAS, sandbox.run(SHARDED[name], REPLICAS))


@pytest.mark.xla
def test_a_sharded_optimizer_of_xla_is_not_for_what_it_cannot_be_told() -> None:
    unsupported = plugins.load("workers.backends", REPLICAS).unsupported
    clipped = featured(PAIR, USUAL, sharded_optimizer={}, clip_by_value={"value": 0.5})
    pinned = msgspec.structs.replace(SHARDED["each tensor"], spelling=Spelling(pin_layout=True))
    assert "by the norm alone" in unsupported(clipped)
    assert "a graph of its own on every replica" in unsupported(pinned)
    buckets = msgspec.structs.replace(SHARDED["buckets"], spelling=Spelling(pin_layout=True))
    assert unsupported(buckets) is None


@pytest.mark.xla
@pytest.mark.parametrize("kind", ["allreduce", "bf16_compress"])
def test_hooks_agree_on_xla_too(kind: str) -> None:
    assert agrees(hooked(kind), "xla_ddp", sandbox.run(hooked(kind), "xla_ddp"))


def test_other_backends_say_that_they_have_no_hooks() -> None:
    for case in (hooked("allreduce"), featured(local_steps=local()), featured(uneven_inputs=uneven())):
        outcome = sandbox.run(case, "torch_dtensor")
        assert isinstance(outcome, Failure)
        assert outcome.kind == "UnsupportedError"


PLANTED = {
    "last_of_bucket_lost": AGREEING["allreduce"],
    "compressed_twice_divided": AGREEING["bf16_compress"],
    "wrapper_keeps_own": AGREEING["fp16_wrapper"],
    "direction_lost": AGREEING["power"],
    "not_averaged_before_power": AGREEING["power_late"],
    "averaged_early": AGREEING["alone"],
    "neighbours_apart": AGREEING["pairs"],
    "final_model_not_sent": AGREEING["more on three ranks"],
    "divided_by_all": AGREEING["more on one, divided by it"],
    "bucket_views_copied": AGREEING["bucket view"],
    "shards_not_divided": SHARDED["each tensor"],
}


SHOWN_ELSEWHERE = "converted_through_bfloat16"
"""In `test_feature_runs.py`, on another backend: DDP does not stand what it is planted in."""


def test_every_planted_fault_of_replicas_has_a_case() -> None:
    of_replicas = {name for name, fault in faults.all_faults().items() if fault.paths == ("replicated",)}
    assert of_replicas == {*PLANTED, SHOWN_ELSEWHERE}


@pytest.mark.parametrize("fault", in_part(PLANTED, 3))
def test_a_planted_fault_shows_with_its_feature(fault: str) -> None:
    case, planted = PLANTED[fault], faults.all_faults()[fault]
    (backend,) = planted.backends
    if backend == REPLICAS:
        needs("torch_xla")
    assert planted.reaches(case)
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: fault})
    side = plugins.load("workers.backends", backend).SIDE
    assert compare(case, backend, side, oracle_trace(case), outcome).verdict == "diverge"


def test_no_other_case_can_show_one() -> None:
    plain = a_sharded_case(DATA, model=SQUARE, training=USUAL)
    plain = msgspec.structs.replace(plain, replication=Replication(gradient_as_bucket_view=True))
    assert [name for name in PLANTED if faults.all_faults()[name].reaches(plain)] == []
