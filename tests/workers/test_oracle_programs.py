"""The oracle of programs: which elements its own runs decide, and how coarse the others are."""

import numpy as np
import pytest
from real_runs import together
from sample_programs import a_call, a_program

from difftest.cases import numbers
from difftest.cases.layers.operator import Named, Operand, Reference
from difftest.judge.outcome import Failure, Trace
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow

RESULT, GRADIENT = (Stage.FORWARD, "0.output"), (Stage.BACKWARD, "0.input")
INPUT = Reference("input")


def a_vector(*values: float) -> Operand:
    return Operand(shape=(len(values),), values=values)


PROGRAMS = {
    "exp": a_program(a_call("torch.exp", {"input": a_vector(1.0, 100.0, 88.0, -1.0)})),
    "log": a_program(a_call("torch.log", {"input": a_vector(-1.0, 0.0, 1.0, 2.0)})),
    "argmax": a_program(a_call("torch.argmax", {"input": a_vector(1.0, 3.0, 2.0)})),
    "relu": a_program(a_call("torch.relu", {"input": a_vector(1e-39, 1.0, -1.0)})),
    "pow": a_program(a_call("torch.pow", {"input": a_vector(1e-39, 2.0), "exponent": a_vector(1e-39, 1.0)})),
    "half": a_program(
        a_call("Tensor.to", {"input": a_vector(0.3, 1.0)}, INPUT, Named("dtype", "float16"), form="method")
    ),
    "half_method": a_program(a_call("Tensor.half", {"input": a_vector(0.3, 1.0)}, INPUT, form="method")),
    "float": a_program(
        a_call("Tensor.float", {"input": a_vector(0.1, 0.7, -0.9, 0.3)}, INPUT, form="method")
    ),
    "wide": a_program(
        a_call("torch.float_power", {"input": a_vector(1.0, 2.0), "exponent": a_vector(2.0, 2.0)})
    ),
    "mm": a_program(a_call("torch.mm", {"input": a_vector(1.0), "mat2": a_vector(1.0)}, rejects=True)),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Trace | Failure]:
    ran = together(list(PROGRAMS.values()), "oracle")
    made = dict(zip(PROGRAMS, ran, strict=True))
    assert all(isinstance(outcome, Trace | Failure) for outcome in made.values()), made
    return made  # type: ignore[return-value]


def deviation(outcome: Trace | Failure, key: tuple[Stage, str]) -> np.ndarray:
    assert isinstance(outcome, Trace), outcome
    return outcome.noise[0][key].pieces[0]


def test_what_overflows_the_dtype_alone_is_undecided(outcomes: dict[str, Trace | Failure]) -> None:
    off = deviation(outcomes["exp"], RESULT)
    np.testing.assert_array_equal(np.isinf(off), [False, True, False, False])


def test_nan_and_infinity_are_decided(outcomes: dict[str, Trace | Failure]) -> None:
    outcome = outcomes["log"]
    assert np.isfinite(deviation(outcome, RESULT)).all()
    assert isinstance(outcome, Trace)
    np.testing.assert_allclose(outcome.steps[0][RESULT].pieces[0], [np.nan, -np.inf, 0.0, np.log(2.0)])


def test_an_index_that_no_rounding_changes_has_no_tolerance(outcomes: dict[str, Trace | Failure]) -> None:
    assert deviation(outcomes["argmax"], RESULT).tolist() == 0.0


def test_a_step_between_a_subnormal_number_and_zero_is_in_the_floor(
    outcomes: dict[str, Trace | Failure],
) -> None:
    outcome = outcomes["relu"]
    assert isinstance(outcome, Trace)
    step = np.abs(outcome.steps[0][GRADIENT].pieces[0])
    off = deviation(outcome, GRADIENT)
    assert off[0] >= step[0] > 0.0
    assert off[1] < 1e-6 < step[1]


def test_of_several_subnormal_operands_one_alone_may_be_taken_for_zero(
    outcomes: dict[str, Trace | Failure],
) -> None:
    outcome = outcomes["pow"]
    assert isinstance(outcome, Trace)
    np.testing.assert_array_equal(outcome.steps[0][RESULT].pieces[0], [1.0, 2.0])
    off = deviation(outcome, RESULT)
    assert off[0] >= 1.0
    assert off[1] < 1e-6


@pytest.mark.parametrize("name", ["half", "half_method"])
def test_a_cast_makes_a_result_as_coarse_as_its_dtype(
    outcomes: dict[str, Trace | Failure], name: str
) -> None:
    outcome = outcomes[name]
    assert isinstance(outcome, Trace)
    assert outcome.events.facts["0.output"].dtype == "float16"
    assert outcome.steps[0][RESULT].pieces[0][0] == pytest.approx(0.3, rel=1e-7)
    off = deviation(outcome, RESULT)
    assert 1e-5 < off[0] < 1e-3


def test_the_loss_of_a_result_in_a_dtype_of_its_own_is_exact(
    outcomes: dict[str, Trace | Failure],
) -> None:
    outcome = outcomes["float"]
    assert isinstance(outcome, Trace)
    result, loss = (outcome.steps[0][Stage.FORWARD, name].pieces[0] for name in ("0.output", "loss"))
    cotangent = numbers.cotangent(PROGRAMS["float"], "0.output", result.shape)
    assert loss == pytest.approx(np.dot(result.astype(np.float64), cotangent), rel=1e-12)


def test_the_gradient_of_an_operand_is_as_coarse_as_the_operand_where_the_result_is_not(
    outcomes: dict[str, Trace | Failure],
) -> None:
    """Every rank rounds it before it is added up.

    On one device it is exact here, so that nothing but its representation would be in the floor.
    """
    outcome = outcomes["wide"]
    assert isinstance(outcome, Trace)
    assert outcome.events.facts["0.output"].dtype == "float64"
    represented = np.abs(outcome.steps[0][GRADIENT].pieces[0]) * 2.0**-24 / np.sqrt(3)
    assert deviation(outcome, GRADIENT).sum() > 1.2 * represented.sum()


def test_a_rejection_names_its_operator(outcomes: dict[str, Trace | Failure]) -> None:
    outcome = outcomes["mm"]
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.operator) == (Stage.FORWARD, "mm")
