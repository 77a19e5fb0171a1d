"""The verdict on two runs, and the order of their divergences."""

import dataclasses

import numpy as np
import pytest
from samples import (
    EXACT,
    Floats,
    Key,
    Spoil,
    a_case,
    a_failure,
    candidate,
    oracle,
    tensor_parallel_case,
    with_pieces,
    with_tensor,
    wrong_at,
)

from difftest.cases.case import Data, Training
from difftest.judge.comparator import Comparison, compare, with_arbiter, worst
from difftest.judge.events import Events
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Outcome, Sharded, Symptom, Trace
from difftest.judge.stage import Stage

CASE = tensor_parallel_case(training=Training(steps=3))


def compared(actual: Outcome, expected: Outcome | None = None) -> Comparison:
    return compare(CASE, "torch_dtensor", "torch", expected or oracle(CASE), actual)


def test_the_same_numbers_agree() -> None:
    comparison = compared(candidate(CASE))
    assert (comparison.verdict, comparison.divergences, comparison.reason) == ("agree", (), "")
    assert {(m.stage, m.tensor) for m in comparison.measurements} == {
        (str(stage), name) for stage, name in oracle(CASE).steps[0]
    }


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rounding_to_the_dtype_agrees_within_its_noise(dtype: str) -> None:
    case = tensor_parallel_case(dtype=dtype)
    noise = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    assert compare(case, "a", "torch", oracle(case, noise), candidate(case)).verdict == "agree"


def test_a_wrong_gradient_diverges_at_its_first_wrong_step() -> None:
    comparison = compared(candidate(CASE, wrong_at(Stage.BACKWARD, "0.weight", step=1)))
    first = comparison.divergences[0]
    assert comparison.verdict == "diverge"
    assert (first.check, first.step, first.stage, first.tensor, first.side) == (
        "gradients",
        1,
        Stage.BACKWARD,
        "0.weight",
        "torch",
    )
    assert first.detail.startswith(
        "step 1, backward, 0.weight: 1 / 12 elements (8.3%) differ; greatest 0.5, "
    )
    assert len(comparison.divergences) == 2


def test_divergences_are_in_the_order_of_the_run() -> None:
    everything = compared(candidate(CASE, lambda _step, _key, value: value + 1.0)).divergences
    places = [(d.step, list(Stage).index(d.stage)) for d in everything]
    assert places == sorted(places)
    assert (everything[0].step, everything[0].stage) == (0, Stage.FORWARD)


def test_at_one_stage_the_check_nearest_to_the_cause_comes_first() -> None:
    case = a_case()
    key, nan = (Stage.UPDATE, "0.bias"), np.full(2, np.nan)
    comparison = compare(case, "a", "torch", oracle(case), with_pieces(candidate(case), 0, key, {0: nan}))
    assert [d.check for d in comparison.divergences] == ["replicas", "finite", "parameters"]


def test_a_run_that_failed_diverges_by_its_symptom() -> None:
    comparison = compared(a_failure(Symptom.HANG))
    assert (comparison.verdict, comparison.measurements) == ("diverge", ())
    assert [(d.check, d.symptom) for d in comparison.divergences] == [("completion", Symptom.HANG)]


def test_without_an_oracle_the_verdict_is_inconclusive() -> None:
    comparison = compared(candidate(CASE), a_failure())
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive",
        "the oracle failed: RuntimeError: size 3 of dim 1",
    )


def test_values_beyond_the_range_of_the_dtype_are_inconclusive() -> None:
    comparison = compared(
        candidate(CASE, wrong_at(Stage.FORWARD, "loss")),
        dataclasses.replace(oracle(CASE), events=Events(in_range=False)),
    )
    assert (comparison.verdict, comparison.reason, comparison.divergences) == (
        "inconclusive",
        "values leave the range of float32",
        (),
    )


def test_checks_that_need_no_numbers_report_even_where_values_leave_the_range() -> None:
    beyond = dataclasses.replace(oracle(CASE), events=Events(in_range=False))
    key = (Stage.UPDATE, "0.bias")
    wrong = with_tensor(
        candidate(CASE), 0, key, dataclasses.replace(candidate(CASE).steps[0][key], dtype="float16")
    )
    assert [(d.check, d.nature) for d in compared(wrong, beyond).divergences] == [("shape", "dtype")]


@pytest.mark.parametrize("name", ["loss", "output"])
def test_a_rank_that_computes_another_loss_or_output_than_the_first_diverges(name: str) -> None:
    right = candidate(CASE)
    wrong = with_pieces(
        right, 0, (Stage.FORWARD, name), {1: right.steps[0][Stage.FORWARD, name].pieces[1] * -100.0}
    )
    assert [(d.check, d.tensor) for d in compared(wrong).divergences] == [("loss", name)]


def test_a_comparison_records_the_device_of_the_run() -> None:
    assert compared(candidate(CASE)).device == ""
    assert (
        compared(dataclasses.replace(candidate(CASE), environment={"device": "NVIDIA H200"})).device
        == "NVIDIA H200"
    )


def test_a_crash_diverges_even_where_values_leave_the_range() -> None:
    assert (
        compared(
            a_failure(Symptom.CRASH), dataclasses.replace(oracle(CASE), events=Events(in_range=False))
        ).verdict
        == "diverge"
    )


def test_agreement_on_zeros_alone_is_inconclusive() -> None:
    comparison = compared(_zeroed(candidate(CASE)), _zeroed(oracle(CASE)))
    assert (comparison.verdict, comparison.reason) == ("inconclusive", "every tensor compared is zero")


def test_agreement_within_noise_as_large_as_the_values_is_inconclusive() -> None:
    comparison = compared(candidate(CASE), oracle(CASE, noise=0.5))
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive",
        "forward, backward, update: rounding noise is as large as the values",
    )


def test_agreement_of_a_whole_stage_within_its_noise_is_inconclusive() -> None:
    truth, vague = oracle(CASE), oracle(CASE, noise=0.5)
    noise = tuple(
        {key: (loud if key[0] is Stage.BACKWARD else quiet)[key] for key in quiet}
        for quiet, loud in zip(truth.noise, vague.noise, strict=True)
    )
    negated = candidate(CASE, lambda _step, key, value: -value if key[0] is Stage.BACKWARD else value)
    comparison = compared(negated, dataclasses.replace(truth, noise=noise))
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive",
        "backward: rounding noise is as large as the values",
    )


def test_agreement_within_noise_made_by_torch_s_own_error_is_inconclusive() -> None:
    truth = oracle(CASE)
    for native, verdict in ((45.0, "agree"), (1e4, "inconclusive")):
        comparison = compared(candidate(CASE), dataclasses.replace(truth, events=Events(native=native)))
        assert comparison.verdict == verdict
    assert (
        comparison.reason
        == "torch's own run in float32 is 1e+04 times as far from float64 as simulated rounding takes it"
    )


def test_an_error_beyond_large_noise_diverges() -> None:
    assert (
        compared(candidate(CASE, wrong_at(Stage.UPDATE, "0.weight", by=1e3)), oracle(CASE, noise=0.5)).verdict
        == "diverge"
    )


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_agreement_on_constants_at_one_stage_is_inconclusive(constant: float) -> None:
    still: Spoil = lambda _step, key, value: (  # noqa: E731
        np.full_like(value, constant) if key[0] is Stage.BACKWARD else value
    )
    truth = oracle(CASE)
    steps = tuple({key: still_of(still, key, tensor) for key, tensor in step.items()} for step in truth.steps)
    comparison = compared(candidate(CASE, still), dataclasses.replace(truth, steps=steps))
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive",
        "backward: every tensor of the oracle is constant or nearly all zero",
    )


def still_of(spoil: Spoil, key: Key, tensor: Sharded) -> Sharded:
    return dataclasses.replace(
        tensor, pieces={rank: spoil(0, key, piece) for rank, piece in tensor.pieces.items()}
    )


def test_a_loss_within_noise_as_large_as_itself_is_no_evidence_of_convergence() -> None:
    case = a_case(fed=Data(batch=4, learnable=True), training=Training(steps=12))
    loss = (Stage.FORWARD, "loss")
    clear, vague = oracle(case), oracle(case)
    last = vague.noise[-1][loss]
    wide = dataclasses.replace(last, pieces={0: np.abs(vague.steps[-1][loss].pieces[0])})
    vague = dataclasses.replace(vague, noise=(*vague.noise[:-1], {**vague.noise[-1], loss: wide}))
    assert compare(case, "a", "torch", clear, candidate(case)).verdict == "agree"
    comparison = compare(case, "a", "torch", vague, candidate(case))
    assert comparison.verdict == "inconclusive"
    assert comparison.reason.startswith("step 11: the loss is ")


def test_exact_cases_have_no_tolerance() -> None:
    case = a_case(fed=EXACT)
    within = wrong_at(Stage.UPDATE, "0.weight", by=2.0**-18)
    assert compare(case, "a", "xla", oracle(case, noise=1e-3), candidate(case)).verdict == "agree"
    assert compare(case, "a", "xla", oracle(case, noise=1e-3), candidate(case, within)).verdict == "diverge"
    loose = a_case(fed=Data(batch=4))
    assert compare(loose, "a", "xla", oracle(loose, noise=1e-3), candidate(loose, within)).verdict == "agree"


def test_the_measurement_of_the_worst_step_is_kept() -> None:
    def spoil(step: int, key: Key, value: Floats) -> Floats:
        return value + {0: 0.1, 1: 0.4, 2: 0.2}[step] if key == (Stage.BACKWARD, "0.bias") else value

    comparison = compared(candidate(CASE, spoil))
    kept = {(m.stage, m.tensor): m for m in comparison.measurements}
    assert kept["backward", "0.bias"].greatest == pytest.approx(0.4, rel=1e-3)
    assert len(kept) == len(comparison.measurements)
    assert worst(()) == ()


def test_the_arbiter_is_the_other_sides_least_error_on_the_same_tensor() -> None:
    sides = {"ddp": "torch", "fsdp": "torch", "spmd": "xla"}
    runs = {"ddp": 0.5, "fsdp": 0.25, "spmd": 2.0}
    comparisons = with_arbiter(
        {name: compared(candidate(CASE, _worse(by))) for name, by in runs.items()}, sides
    )
    errors = {name: _at(comparison, "loss") for name, comparison in comparisons.items()}
    assert errors["ddp"].other_error == errors["spmd"].error == errors["fsdp"].other_error
    assert errors["spmd"].other_error == errors["fsdp"].error < errors["ddp"].error


def test_without_the_other_side_there_is_no_arbiter() -> None:
    comparisons = with_arbiter(
        {"ddp": compared(candidate(CASE)), "spmd": compared(a_failure())}, {"ddp": "torch", "spmd": "xla"}
    )
    assert {m.other_error for m in comparisons["ddp"].measurements} == {None}


def _worse(by: float) -> Spoil:
    return wrong_at(Stage.FORWARD, "loss", by=by)


def _at(comparison: Comparison, tensor: str) -> Measurement:
    return next(m for m in comparison.measurements if m.tensor == tensor)


def _zeroed(trace: Trace) -> Trace:
    steps = tuple(
        {
            key: dataclasses.replace(t, pieces={r: 0.0 * p for r, p in t.pieces.items()})
            for key, t in s.items()
        }
        for s in trace.steps
    )
    return dataclasses.replace(trace, steps=steps)
