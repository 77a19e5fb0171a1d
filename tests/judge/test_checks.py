"""Every check reports the damage planted for it and accepts benign differences."""

import ast
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import pytest
from samples import (
    NOISE,
    Floats,
    Key,
    a_case,
    a_failure,
    candidate,
    oracle,
    tensor_parallel_case,
    with_pieces,
    with_tensor,
    wrong_at,
)

from difftest.cases.case import Case, Data, Training
from difftest.cases.layout import Replicate, Shard
from difftest.ground import plugins
from difftest.judge.checks import (
    completion,
    convergence,
    determinism,
    finite,
    gradients,
    loss,
    parameters,
    replicas,
    shape,
)
from difftest.judge.divergence import Divergence
from difftest.judge.measured import measure_run
from difftest.judge.outcome import PARTLY_DETERMINISTIC, Outcome, Sharded, Symptom, Trace
from difftest.judge.stage import Stage

CASE = tensor_parallel_case()
COPIES = a_case(mesh=(("dp", 4),))
WEIGHT = (Stage.UPDATE, "0.weight")
Check: TypeAlias = Callable[..., Iterable[Divergence]]


def divergences(check: Check, actual: Outcome, case: Case = CASE) -> list[Divergence]:
    return list(check(measure_run(case, "xla_spmd", "xla", oracle(case), actual)))


def test_a_check_is_a_file_with_an_order_and_a_function() -> None:
    names = plugins.names("difftest.judge.checks")
    assert {
        "completion",
        "shape",
        "finite",
        "replicas",
        "loss",
        "gradients",
        "parameters",
        "convergence",
    } <= set(names)
    for name in names:
        module = plugins.load("difftest.judge.checks", name)
        assert isinstance(module.ORDER, int)
        assert callable(module.check)


@pytest.mark.parametrize("name", plugins.names("difftest.judge.checks"))
def test_a_check_gives_its_divergences_the_name_of_its_file(name: str) -> None:
    file = plugins.file("difftest.judge.checks", name)
    texts = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
    assert name in texts, f"{file} gives its divergences another name"


@pytest.mark.parametrize("name", plugins.names("difftest.judge.checks"))
def test_no_check_reports_a_divergence_of_a_correct_run(name: str) -> None:
    check = plugins.load("difftest.judge.checks", name).check
    learnable = a_case(fed=Data(batch=4, learnable=True), training=Training(steps=12))
    for case in (CASE, COPIES, learnable):
        assert divergences(check, candidate(case), case) == []


@pytest.mark.parametrize("name", plugins.names("difftest.judge.checks"))
def test_only_a_check_that_says_so_reports_a_failed_run(name: str) -> None:
    check = plugins.load("difftest.judge.checks", name)
    assert bool(divergences(check.check, a_failure())) == check.TRAITS.run_failed


@pytest.mark.parametrize("symptom", [Symptom.CAPABILITY, Symptom.EXCEPTION, Symptom.HANG, Symptom.CRASH])
def test_completion_reports_every_symptom_with_the_place_and_the_log(symptom: Symptom) -> None:
    (divergence,) = divergences(
        completion.check, a_failure(symptom, stage=Stage.BACKWARD, step=3, rank=2, log="the tail")
    )
    assert (divergence.symptom, divergence.stage, divergence.step, divergence.log) == (
        symptom,
        Stage.BACKWARD,
        3,
        "the tail",
    )
    assert divergence.detail == "step 3, backward, rank 2: RuntimeError: size 3 of dim 1"
    assert divergence.cause


def test_a_failure_while_an_operator_ran_is_a_divergence_of_that_operator() -> None:
    (divergence,) = divergences(completion.check, a_failure(operator="add"))
    assert divergence.operator == "add"


@pytest.mark.parametrize(
    ("check", "stage", "name"),
    [
        (loss.check, Stage.FORWARD, "output"),
        (gradients.check, Stage.BACKWARD, "0.weight"),
        (parameters.check, Stage.UPDATE, "0.bias"),
    ],
)
def test_a_wrong_element_is_reported_by_the_check_of_its_stage_and_rounding_is_not(
    check: Check, stage: Stage, name: str
) -> None:
    (divergence,) = divergences(check, candidate(CASE, wrong_at(stage, name)))
    assert (divergence.symptom, divergence.stage, divergence.tensor) == (Symptom.MISMATCH, stage, name)
    assert divergence.ratio is not None
    assert divergence.ratio > 1e5
    assert divergences(check, candidate(CASE, wrong_at(stage, name, by=NOISE / 4))) == []
    for other in {loss.check, gradients.check, parameters.check} - {check}:
        assert divergences(other, candidate(CASE, wrong_at(stage, name))) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite_reports_nonfinite_values_with_their_ranks(bad: float) -> None:
    piece = candidate(CASE).steps[0][WEIGHT].pieces[1].copy()
    piece[0, 2] = bad
    (divergence,) = divergences(finite.check, with_pieces(candidate(CASE), 0, WEIGHT, {1: piece}))
    assert (divergence.symptom, divergence.tensor) == (Symptom.NONFINITE, "0.weight")
    assert divergence.detail.endswith("1 values are not finite, on ranks [1]")


def test_finite_accepts_large_numbers() -> None:
    assert divergences(finite.check, candidate(CASE, lambda _step, _key, value: value * 1e37)) == []


def changed(**changes: Any) -> Trace:  # noqa: ANN401  fields of a tensor
    tensor = dataclasses.replace(candidate(CASE).steps[0][WEIGHT], **changes)
    return with_tensor(candidate(CASE), 0, WEIGHT, tensor)


@pytest.mark.parametrize(
    ("actual", "detail"),
    [
        (with_tensor(candidate(CASE), 0, WEIGHT, None), "is missing"),
        (changed(shape=(4, 3)), "has shape (4, 3), expected (3, 4)"),
        (changed(dtype="float64"), "has dtype float64, expected float32"),
        (changed(placements=(Replicate(),)), "has placements (R), expected (S0)"),
        (changed(placements=()), "has placements (), expected (S0)"),
        (changed(pieces={0: np.zeros((2, 4))}), "rank 1 holds None, expected (1, 4)"),
        (changed(pieces={0: np.zeros((3, 4)), 1: np.zeros((1, 4))}), "rank 0 holds (3, 4), expected (2, 4)"),
    ],
)
def test_shape_reports_missing_tensors_and_wrong_shapes_dtypes_and_placements(
    actual: Trace, detail: str
) -> None:
    (divergence,) = divergences(shape.check, actual)
    assert divergence.detail == f"step 0, update, 0.weight: {detail}"


def test_shape_reports_every_tensor_of_an_empty_trace() -> None:
    for nothing in (Trace(steps=()), Trace(steps=({},))):
        assert len(divergences(shape.check, nothing)) == len(oracle(CASE).steps[0])


def test_shape_requires_a_float32_loss_in_every_dtype() -> None:
    case = tensor_parallel_case(dtype="bfloat16")
    tensor = candidate(case).steps[0][Stage.FORWARD, "loss"]
    low = with_tensor(
        candidate(case), 0, (Stage.FORWARD, "loss"), dataclasses.replace(tensor, dtype="bfloat16")
    )
    assert divergences(shape.check, candidate(case), case) == []
    assert [d.tensor for d in divergences(shape.check, low, case)] == ["loss"]


def test_shape_accepts_any_placements_of_gradients() -> None:
    whole = candidate(CASE).steps[0][Stage.BACKWARD, "0.bias"]
    pieces = dict.fromkeys(range(2), whole.full(CASE.layout.mesh))
    replicated = Sharded(shape=(3,), dtype="float32", placements=(Replicate(),), pieces=pieces)
    assert (
        divergences(shape.check, with_tensor(candidate(CASE), 0, (Stage.BACKWARD, "0.bias"), replicated))
        == []
    )


def nudged(trace: Trace, key: Key, rank: int) -> Trace:
    """The trace with one bit changed in one rank's piece of a tensor."""
    piece = trace.steps[0][key].pieces[rank].astype(np.float32)
    return with_pieces(trace, 0, key, {rank: np.nextafter(piece, np.float32(np.inf))})


def test_replicas_reports_one_bit_of_difference_between_copies() -> None:
    (divergence,) = divergences(replicas.check, nudged(candidate(COPIES), WEIGHT, 2), COPIES)
    assert divergence.tensor == "0.weight"
    assert "ranks [2] differ from rank 0 by up to" in divergence.detail
    assert divergence.detail.endswith("ranks [0, 1, 2, 3] must hold the same bits")


def test_replicas_compares_only_ranks_that_hold_the_same_piece() -> None:
    case = a_case(
        mesh=(("dp_replicate", 2), ("dp_shard", 2)),
        sharded={"0.weight": (Replicate(), Shard(0))},
        path="hybrid",
    )
    (divergence,) = divergences(replicas.check, nudged(candidate(case), WEIGHT, 3), case)
    assert divergence.detail.endswith("ranks [1, 3] must hold the same bits")


def test_replicas_accepts_different_outputs_and_nans_on_every_rank() -> None:
    assert divergences(replicas.check, nudged(candidate(COPIES), (Stage.FORWARD, "loss"), 1), COPIES) == []
    nans = candidate(COPIES, lambda _step, _key, value: np.full_like(value, np.nan))
    assert divergences(replicas.check, nans, COPIES) == []


LEARNABLE = a_case(fed=Data(batch=4, learnable=True), training=Training(steps=12))
LOSS = (Stage.FORWARD, "loss")


def stuck(step: int, key: Key, value: Floats) -> Floats:
    first = float(oracle(LEARNABLE).steps[0][LOSS].pieces[0])
    return np.array(first) if key == LOSS and step else value


def test_convergence_reports_a_task_that_only_the_oracle_solves() -> None:
    (divergence,) = divergences(convergence.check, candidate(LEARNABLE, stuck), LEARNABLE)
    assert (divergence.step, divergence.tensor, divergence.check) == (11, "loss", "convergence")
    assert "the oracle's loss falls from" in divergence.detail


def test_convergence_reports_a_loss_that_became_nan() -> None:
    nan = candidate(LEARNABLE, lambda step, key, value: value * np.nan if key == LOSS and step else value)
    assert len(divergences(convergence.check, nan, LEARNABLE)) == 1


def test_convergence_accepts_a_task_solved_another_way() -> None:
    assert (
        divergences(
            convergence.check,
            candidate(LEARNABLE, lambda _s, key, v: v * 1.05 if key == LOSS else v),
            LEARNABLE,
        )
        == []
    )


@pytest.mark.parametrize(
    "case", [a_case(training=Training(steps=12)), a_case(fed=Data(batch=4, learnable=True))]
)
def test_convergence_applies_only_to_long_runs_on_learnable_tasks(case: Case) -> None:
    assert divergences(convergence.check, candidate(case, lambda _step, _key, value: value + 9.0), case) == []


@pytest.mark.parametrize("step", [0, 11])
def test_convergence_leaves_a_missing_loss_to_the_shape_check(step: int) -> None:
    lacking = with_tensor(candidate(LEARNABLE, stuck), step, LOSS, None)
    assert divergences(convergence.check, lacking, LEARNABLE) == []


def divergences_of_two_runs(again: Outcome, actual: Outcome | None = None) -> list[Divergence]:
    return list(
        determinism.check(
            measure_run(CASE, "xla_spmd", "xla", oracle(CASE), actual or candidate(CASE), again)
        )
    )


def test_determinism_reports_one_bit_of_difference_between_two_runs() -> None:
    assert divergences_of_two_runs(candidate(CASE)) == []
    (divergence,) = divergences_of_two_runs(nudged(candidate(CASE), WEIGHT, 1))
    assert (divergence.check, divergence.symptom, divergence.tensor, divergence.stage) == (
        "determinism",
        Symptom.MISMATCH,
        "0.weight",
        Stage.UPDATE,
    )
    assert divergence.detail == "step 0, update, 0.weight: run again, ranks [1] have other bits"


def test_determinism_accepts_different_bits_of_runs_that_are_only_partly_deterministic() -> None:
    environment = {**candidate(CASE).environment, "deterministic": PARTLY_DETERMINISTIC}
    lenient = dataclasses.replace(candidate(CASE), environment=environment)
    assert divergences_of_two_runs(nudged(candidate(CASE), WEIGHT, 1), lenient) == []
    assert divergences_of_two_runs(a_failure(), lenient)


def test_determinism_reports_a_run_that_fails_intermittently() -> None:
    (divergence,) = divergences_of_two_runs(a_failure(Symptom.CRASH, stage=Stage.BACKWARD))
    assert (divergence.check, divergence.symptom, divergence.stage) == (
        "determinism",
        Symptom.CRASH,
        Stage.BACKWARD,
    )
    assert divergence.cause
    assert divergences_of_two_runs(candidate(CASE), a_failure()) == []


def test_determinism_reports_a_tensor_that_only_one_run_has() -> None:
    assert [d.tensor for d in divergences_of_two_runs(with_tensor(candidate(CASE), 0, WEIGHT, None))] == [
        "0.weight"
    ]
