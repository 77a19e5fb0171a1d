"""The noise floor: measured per element, drawn towards the tensor's mean, zero where nothing rounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from difftest.cases.layout import Replicate
from difftest.judge.noise import ALIKE, FLOORS_MOST, SAMPLES, floor, in_floors, spread
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage

KEY = (Stage.FORWARD, "output")
deviations = arrays.arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1e6))


def one_tensor(*values: float) -> Trace:
    piece = np.array(values)
    return Trace(
        steps=(
            {KEY: Sharded(shape=piece.shape, dtype="float64", placements=(Replicate(),), pieces={0: piece})},
        )
    )


def test_the_spread_is_the_root_mean_square_deviation_from_the_truth() -> None:
    truth = one_tensor(9.0, 2.0)
    noise, _ = spread(truth, [one_tensor(9.0, 5.0), one_tensor(9.0, -2.0)], truth, 0.0)
    np.testing.assert_allclose(noise[0][KEY].pieces[0], [0.0, np.sqrt((9 + 16) / 2)])


def test_the_deviation_of_the_run_in_the_dtype_is_added_to_the_simulated_deviation() -> None:
    noise, _ = spread(one_tensor(9.0, 2.0), [one_tensor(9.0, 5.0)], one_tensor(9.5, 6.0), 0.0)
    np.testing.assert_allclose(noise[0][KEY].pieces[0], [0.5, 5.0])


def test_a_tensor_of_which_only_rounding_is_left_may_deviate_as_equal_numbers_do() -> None:
    truth, moved = one_tensor(0.0, 3.0), one_tensor(4.0, 3.0)
    noise, farthest = spread(truth, [moved], moved, 0.0)
    np.testing.assert_allclose(noise[0][KEY].pieces[0], [ALIKE * np.sqrt(32), 0.0])
    assert farthest == spread(one_tensor(9.0, 3.0), [one_tensor(13.0, 3.0)], one_tensor(13.0, 3.0), 0.0)[1]
    zeros = one_tensor(0.0, 0.0)
    assert not spread(zeros, [zeros], zeros, 0.5)[0][0][KEY].pieces[0].any(), "zeros of which nothing is left"


def test_the_distance_of_the_run_in_the_dtype_is_in_floors_of_the_simulated_runs_alone() -> None:
    truth, simulated = one_tensor(1.0, 1.0), one_tensor(1.25, 1.25)
    assert spread(truth, [simulated], one_tensor(1.0, 0.0), 0.0)[1] == 4.0
    assert spread(truth, [simulated], one_tensor(1.0, np.inf), 0.0)[1] == FLOORS_MOST
    assert spread(truth, [truth], truth, 0.0)[1] == 0.0


def test_a_deviation_is_at_least_that_of_representing_the_value() -> None:
    truth = one_tensor(3.0)
    np.testing.assert_allclose(spread(truth, [truth], truth, 0.5)[0][0][KEY].pieces[0], [1.5 / np.sqrt(3)])


@given(deviations)
def test_a_floor_lies_between_the_elements_deviation_and_the_tensors(deviation: np.ndarray) -> None:
    greatest = float(np.max(deviation)) or 1.0
    shared = greatest * np.sqrt(np.mean((deviation / greatest) ** 2))
    floors = floor(deviation)
    assert (floors >= np.minimum(deviation, shared) * (1 - 1e-9)).all()
    assert (floors <= np.maximum(deviation, shared) * (1 + 1e-9)).all()


@given(deviations, st.floats(1e-3, 1e3))
def test_floors_scale_with_the_noise(deviation: np.ndarray, factor: float) -> None:
    np.testing.assert_allclose(floor(deviation * factor), floor(deviation) * factor, rtol=1e-6, atol=1e-150)


def test_one_wild_element_does_not_hide_its_quiet_neighbours() -> None:
    quiet = floor(np.array([1.0, 0.0, 0.0, 0.0]))[1]
    assert 0.1 < quiet < 0.5


def test_noise_that_is_not_finite_leaves_its_own_element_undecided() -> None:
    floors = floor(np.array([np.inf, np.nan, 3.0, 3.0]))
    np.testing.assert_array_equal(floors, [np.inf, np.inf, 3.0, 3.0])
    np.testing.assert_array_equal(in_floors(np.array([1.0, 1e300, 6.0, 0.0]), floors), [0.0, 0.0, 2.0, 0.0])


@pytest.mark.parametrize("undecided", [False, True])
def test_a_loss_that_is_no_number_is_undecided_where_a_result_of_the_program_is(undecided: bool) -> None:
    def run(result: float, loss: float) -> Trace:
        (own,) = one_tensor(result).steps
        (total,) = one_tensor(loss).steps
        return Trace(steps=({**own, (Stage.FORWARD, "loss"): total[KEY]},))

    truth = run(np.inf, np.nan)
    moved = run(1.0, np.nan) if undecided else truth
    noise, _ = spread(truth, [moved], truth, 0.0, by_element=True)
    assert np.isinf(noise[0][Stage.FORWARD, "loss"].pieces[0]).all() == undecided


def test_where_nothing_rounds_any_error_is_infinitely_many_floors() -> None:
    np.testing.assert_array_equal(
        in_floors(np.array([0.0, -1e-30, 3.0]), np.array([0.0, 0.0, 1.5])), [0.0, np.inf, 2.0]
    )


def test_an_overflowing_error_is_infinitely_many_floors_without_a_warning() -> None:
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(in_floors(np.array([1e300]), np.array([1e-300])), np.inf)


def test_an_empty_tensor_has_an_empty_floor() -> None:
    assert floor(np.zeros((0, 3))).shape == (0, 3)


def test_there_are_enough_samples_to_estimate_a_spread() -> None:
    assert SAMPLES >= 4
