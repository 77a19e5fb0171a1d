"""Measuring a tensor against the oracle's: ratios, counts, and NaN and infinite values."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from samples import a_case, a_failure, candidate, oracle, with_tensor, wrong_at

from difftest.judge.measured import Key, beyond, describe, measure, measure_run
from difftest.judge.noise import FLOORS_MOST, THRESHOLD
from difftest.judge.stage import Stage

AT: Key = (2, Stage.BACKWARD, "0.weight")
FLOOR = 1e-3
TRUTH = np.array([1.0, -2.0, 3.0])


@given(st.floats(-1e6, 1e6))
def test_an_error_is_beyond_rounding_above_the_threshold_and_not_below(floors: float) -> None:
    value = TRUTH + np.array([0.0, 0.0, floors]) * FLOOR
    measured = measure(AT, TRUTH, np.full(3, FLOOR), value)
    assert measured.ratio == pytest.approx(abs(floors), rel=1e-6, abs=1e-6)
    assert beyond(measured) == (measured.ratio > THRESHOLD)
    assert measured.differing == int(beyond(measured))


def test_exact_cases_allow_no_error_at_all() -> None:
    value = TRUTH + np.array([0.0, 0.0, 1e-12])
    assert beyond(measure(AT, TRUTH, np.zeros(3), value, exact=True))
    assert measure(AT, TRUTH, np.zeros(3), value, exact=True).differing == 1
    assert not beyond(measure(AT, TRUTH, np.zeros(3), TRUTH, exact=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("exact", [False, True])
def test_a_non_finite_value_is_beyond_rounding_and_counted(bad: float, *, exact: bool) -> None:
    measured = measure(AT, TRUTH, np.full(3, FLOOR), np.array([1.0, bad, 3.0]), exact=exact)
    assert beyond(measured)
    assert (measured.differing, measured.ratio, measured.greatest) == (1, FLOORS_MOST, FLOORS_MOST)
    assert np.isfinite([measured.error, measured.scale, measured.floor]).all()


def test_equal_infinities_are_no_error() -> None:
    truth = np.array([np.inf, -np.inf])
    assert measure(AT, truth, np.zeros(2), truth).ratio == 0.0


anything = arrays.arrays(np.float64, 4, elements=st.floats(width=64))


@given(anything, anything, anything)
def test_measurements_are_finite_for_any_input(
    truth: np.ndarray, deviation: np.ndarray, value: np.ndarray
) -> None:
    measured = measure(AT, truth, np.abs(deviation), value)
    numbers = (measured.error, measured.greatest, measured.scale, measured.floor, measured.ratio)
    assert np.isfinite(numbers).all()
    assert min(numbers) >= 0.0


def test_an_empty_tensor_agrees() -> None:
    nothing = np.zeros((0, 2))
    assert not beyond(measure(AT, nothing, nothing, nothing))


def test_a_description_has_the_place_the_share_the_greatest_and_the_floor() -> None:
    text = describe(measure(AT, TRUTH, np.full(3, FLOOR), TRUTH + np.array([0.0, 0.0, 0.5])))
    assert text == (
        "1 / 3 elements (33.3%) differ; greatest 0.5, 500 x the rounding noise 0.001; values are about 2.16"
    )
    assert "exact: none allowed" in describe(measure(AT, TRUTH, np.zeros(3), TRUTH + 1.0, exact=True))


def test_every_tensor_that_both_runs_have_whole_is_measured() -> None:
    case = a_case()
    measured = measure_run(
        case, "a", "torch", oracle(case), candidate(case, wrong_at(Stage.BACKWARD, "0.bias"))
    ).measured
    assert set(measured) == {(0, stage, name) for stage, name in oracle(case).steps[0]}
    assert [key for key, m in measured.items() if beyond(m)] == [(0, Stage.BACKWARD, "0.bias")]


def test_tensors_that_do_not_fit_are_not_measured() -> None:
    case, key = a_case(), (Stage.UPDATE, "0.weight")
    whole = candidate(case)
    tensor = whole.steps[0][key]
    for odd in (
        None,
        dataclasses.replace(tensor, pieces={}),
        dataclasses.replace(tensor, shape=(1, 8)),
        dataclasses.replace(tensor, placements=()),
    ):
        measured = measure_run(case, "a", "torch", oracle(case), with_tensor(whole, 0, key, odd)).measured
        assert (0, *key) not in measured


def test_a_failure_has_neither_tensors_nor_measurements() -> None:
    run = measure_run(a_case(), "a", "torch", oracle(a_case()), a_failure())
    assert not run.measured
    assert not list(run.tensors())
