"""Pipelines in real processes: each schedule agrees, and a planted fault shows and is blamed on its rank."""

from typing import Any

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace
from sharded_cases import S0, R, a_sharded_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh, Placements
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.cases.pipelining import Pipeline
from difftest.cases.resets import resets
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Trace
from difftest.records.evidence import DECIDED_BY
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_pipeline"
STEPS = Training(steps=2, optimizer="momentum", learning_rate=0.0625, clip_norm=0.25)
MODEL = Model(
    layers=(
        Linear(inputs=6, outputs=8),
        Activation(function="tanh"),
        Linear(inputs=8, outputs=8),
        Linear(inputs=8, outputs=8),
        Activation(function="tanh"),
        Linear(inputs=8, outputs=4),
    )
)
PAIR = Mesh((("pp", 2),))
FOUR = (2, 3, 5)
FROZEN = Feature(name="frozen_layers", options={"first": 0, "count": 3})


def piped(
    mesh: Mesh = PAIR,
    sharded: Placements | None = None,
    *,
    training: Training = STEPS,
    model: Model = MODEL,
    rows: int = 16,
    **options: Any,  # noqa: ANN401  a pipeline's
) -> Case:
    batch = tuple(S0 if name.startswith("dp") else R for name in mesh.names)
    layout = {"": sharded} if sharded else {}
    case = a_sharded_case(mesh, batch, layout, training=training, model=model)
    given: dict[str, Any] = {"cuts": (3,), "microbatches": 4, **options}
    pipeline = Pipeline(**given)
    return msgspec.structs.replace(
        case, path="pipelines", pipeline=pipeline, data=Data(batch=rows * training.accumulation)
    )


def assert_agrees(case: Case) -> None:
    outcome = sandbox.run(case, BACKEND)
    assert agrees(case, BACKEND, outcome), outcome


def divergences_of(case: Case, fault: str = "") -> tuple[Divergence, ...]:
    outcome = sandbox.run(case, BACKEND, options={faults.VARIABLE: fault} if fault else {})
    assert isinstance(outcome, Trace), outcome
    return compare(case, BACKEND, "torch", oracle_trace(case), outcome).divergences


def checks_of(case: Case, fault: str = "") -> set[str]:
    """The checks by which a run diverges."""
    return {one.check for one in divergences_of(case, fault)}


@pytest.mark.parametrize("hands", ["tensor", "view", "two", "passed_on", "learned"])
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_one_stage_a_rank_agrees(schedule: str, hands: str) -> None:
    assert_agrees(piped(schedule=schedule, hands=hands, scaled=True))


@pytest.mark.parametrize("schedule", ["LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble"])
def test_two_stages_a_rank_agree(schedule: str) -> None:
    assert_agrees(piped(schedule=schedule, cuts=FOUR, hands="two"))


@pytest.mark.parametrize(
    ("schedule", "cuts", "hands"), [("1F1B", (3,), "learned"), ("InterleavedZeroBubble", FOUR, "two")]
)
def test_stages_that_are_given_a_factor_for_each_row_agree(
    schedule: str, cuts: tuple[int, ...], hands: str
) -> None:
    assert_agrees(piped(schedule=schedule, cuts=cuts, hands=hands, beside="rows", evaluated="later"))


def test_each_rank_of_a_data_axis_is_given_the_factors_of_its_rows() -> None:
    training = msgspec.structs.replace(STEPS, accumulation=2)
    mesh = Mesh((("pp", 2), ("dp_shard", 2)))
    assert_agrees(piped(mesh, (R, S0), schedule="1F1B", beside="rows", training=training))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beside": "pair"}, "pipeline_keyword_of_a_tuple"),
        ({"beside": "one_row"}, "pipeline_keyword_of_one_row"),
        ({"beside": "number"}, "pipeline_keyword_without_dims"),
        ({"beside": "rows", "microbatches": 3}, "pipeline_of_uneven_microbatches"),
        ({"hands": "named"}, "pipeline_of_a_dict"),
        (
            {
                "schedule": "InterleavedZeroBubble",
                "cuts": FOUR,
                "model": Model(layers=MODEL.layers, sequence=4),
            },
            "zero_bubble_of_views",
        ),
    ],
)
def test_what_stages_cannot_be_given_by_keyword_or_hand_on_is_known(
    options: dict[str, Any], name: str
) -> None:
    case = piped(**options)
    assert_agrees(case.unsharded())
    (first,) = compare(case, BACKEND, "torch", oracle_trace(case), sandbox.run(case, BACKEND)).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith(f"{name}.py")


def test_rows_that_come_second_are_refused_or_have_other_targets_which_is_known() -> None:
    model = Model(layers=MODEL.layers, sequence=4)
    case = piped(schedule="1F1B", model=model, rows_second=True)
    (first,) = compare(case, BACKEND, "torch", oracle_trace(case), sandbox.run(case, BACKEND)).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith("pipeline_cut_along_another_dim.py")
    silent = piped(schedule="1F1B", model=model, rows_second=True, beside="rows")
    first = divergences_of(silent)[0]
    assert first.check == "loss"
    entry = read_ledger().entry(first, silent, utc_today(), {DECIDED_BY: "pipeline.rows_second=True"})
    assert entry
    assert entry.upstream.endswith("pipeline_targets_of_other_rows.py")


@pytest.mark.parametrize(
    ("axis", "sharded", "schedule", "cuts"),
    [
        ("dp", None, "1F1B", (3,)),
        ("dp_shard", (R, S0), "1F1B", (3,)),
        ("dp_shard", (R, S0), "InterleavedZeroBubble", FOUR),
    ],
    ids=["replicated", "sharded", "sharded, zero bubble"],
)
def test_data_axes_within_the_stages_agree(
    axis: str, sharded: Placements | None, schedule: str, cuts: tuple[int, ...]
) -> None:
    assert_agrees(piped(Mesh((("pp", 2), (axis, 2))), sharded, schedule=schedule, cuts=cuts, scaled=True))


def test_hybrid_sharding_beside_tensor_parallelism_within_the_stages_agrees() -> None:
    mesh = Mesh((("pp", 2), ("dp_replicate", 2), ("dp_shard", 1), ("tp", 2)))
    assert_agrees(piped(mesh, (R, R, S0, S0), schedule="1F1B"))


def test_zero_bubble_does_not_reduce_gradients_of_stages_in_ddp_which_is_known() -> None:
    case = piped(Mesh((("pp", 2), ("dp", 2))), schedule="InterleavedZeroBubble", cuts=FOUR)
    first = divergences_of(case)[0]
    assert "unreduced" in first.predicted, first.detail
    assert read_ledger().entry(first, case, utc_today())


@pytest.mark.parametrize(
    ("hands", "name"),
    [
        ("learned", "zero_bubble_output_of_parameters_alone"),
        ("passed_on", "zero_bubble_of_what_is_passed_on"),
    ],
)
def test_what_zero_bubble_schedules_make_of_a_second_tensor_is_known(hands: str, name: str) -> None:
    case = piped(schedule="InterleavedZeroBubble", cuts=FOUR, hands=hands)
    outcome = sandbox.run(case, BACKEND)
    first, *_ = compare(case, BACKEND, "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith(f"{name}.py")


def test_a_stage_may_be_attention_alone() -> None:
    attention = Attention(width=8, heads=1, kv_heads=1, causal=True, segments=False)
    model = Model(layers=(Linear(inputs=6, outputs=8), attention, Linear(inputs=8, outputs=4)), sequence=3)
    case = piped(cuts=(1, 2), model=model, mesh=Mesh((("pp", 3),)))
    assert_agrees(case)


def test_frozen_layers_and_accumulated_parts_agree() -> None:
    case = piped(training=msgspec.structs.replace(STEPS, accumulation=2))
    assert_agrees(msgspec.structs.replace(case, features=(FROZEN,)))


def test_a_rank_whose_layers_are_all_frozen_clips_in_the_dtype_of_the_others() -> None:
    case = piped(training=Training(steps=2, clip_norm=0.03125))
    assert_agrees(msgspec.structs.replace(case, features=(FROZEN,), dtype="bfloat16"))


def test_frozen_layers_that_are_split_are_trained_which_is_known() -> None:
    case = piped(Mesh((("pp", 2), ("tp", 2))), (R, S0), schedule="1F1B")
    assert_agrees(case)
    case = msgspec.structs.replace(case, features=(FROZEN,))
    first = divergences_of(case)[0]
    assert "frozen_trained" in first.predicted
    assert read_ledger().entry(first, case, utc_today())


@pytest.mark.parametrize(
    ("schedule", "checks"),
    [
        ("LoopedBFS", {"loss", "finite"}),  # of memory that may hold anything
        ("Interleaved1F1B", {"loss", "finite"}),
        ("InterleavedZeroBubble", {"gradients", "finite"}),
    ],
)
def test_what_fewer_microbatches_than_ranks_make_wrong_is_known(schedule: str, checks: set[str]) -> None:
    case = piped(schedule=schedule, cuts=FOUR, microbatches=1)
    first = divergences_of(case)[0]
    assert first.check in checks
    assert read_ledger().entry(first, case, utc_today())


def test_on_one_device_there_is_no_pipeline() -> None:
    assert_agrees(piped().unsharded())


def test_gradients_that_are_divided_again_by_a_second_part_are_known_by_the_option_that_decides() -> None:
    case = piped(training=msgspec.structs.replace(STEPS, accumulation=2), scaled=True)
    first = divergences_of(case)[0]
    assert first.check == "gradients"
    option, reset = next((name, reset) for name, reset in resets(case) if "scaled" in name)
    assert_agrees(reset)
    ledger = read_ledger()
    assert ledger.entry(first, case, utc_today()) is None
    assert ledger.entry(first, case, utc_today(), {DECIDED_BY: option})


def test_evaluations_between_steps_change_nothing() -> None:
    assert_agrees(piped(evaluated="later"))


@pytest.mark.parametrize("schedule", ["GPipe", "InterleavedZeroBubble"])
def test_after_an_evaluation_ahead_of_the_first_step_nothing_is_trained_which_is_known(schedule: str) -> None:
    cuts = {"GPipe": (3,)}.get(schedule, FOUR)
    case = piped(schedule=schedule, cuts=cuts, evaluated="first")
    outcome = sandbox.run(case, BACKEND)
    assert isinstance(outcome, Failure)
    (first,) = compare(case, BACKEND, "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith("evaluation_ahead_of_a_pipeline.py")


def test_layers_with_hooks_agree_in_one_step_and_keep_them_in_the_next_which_is_known() -> None:
    hooked = (Feature(name="input_hooks"),)
    once = msgspec.structs.replace(STEPS, steps=1)
    assert_agrees(msgspec.structs.replace(piped(training=once), features=hooked))
    case = msgspec.structs.replace(piped(), features=hooked)
    first = divergences_of(case)[0]
    assert (first.check, first.step) == ("gradients", 1)
    ledger = read_ledger()
    assert ledger.entry(first, case, utc_today(), {DECIDED_BY: "feature.input_hooks"})
    assert ledger.entry(first, case, utc_today()) is None


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("microbatches_swapped", {}),
        ("microbatches_not_divided", {"scaled": True}),
        ("beside_swapped", {"beside": "rows"}),
        ("stale_stages", {}),
        ("second_output_stale", {"hands": "two"}),
    ],
)
def test_a_planted_fault_of_pipelines_diverges(fault: str, options: dict[str, Any]) -> None:
    case = piped(**options)
    assert faults.all_faults()[fault].reaches(case)
    assert not faults.all_faults()[fault].reaches(case.unsharded())
    assert checks_of(case, fault)


def test_a_stage_that_fails_is_named_and_not_the_ranks_that_wait_for_it() -> None:
    case = piped(Mesh((("pp", 3),)), cuts=(2, 4), schedule="1F1B")
    outcome = sandbox.run(case, BACKEND, options={faults.VARIABLE: "stage_raises"})
    assert isinstance(outcome, Failure)
    assert (outcome.rank, outcome.kind) == (2, "RuntimeError")
    assert outcome.message == "planted: a stage of pipelines raises"
