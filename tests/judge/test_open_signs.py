"""Parameters that moved the other way because their gradient has no sign within rounding."""

import numpy as np
import pytest
from samples import Floats, Key, a_case, candidate, oracle, with_pieces

from difftest.cases import numbers
from difftest.cases.case import Training
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage

CASE = a_case(training=Training(optimizer="adam"))
NAME, FIRST = "0.weight", (0, 0)


def expected(gradient: float) -> Trace:
    """The oracle's run, in which one element has this gradient."""
    right, key = oracle(CASE), (Stage.BACKWARD, NAME)
    piece = right.steps[0][key].pieces[0].copy()
    piece[FIRST] = gradient
    return with_pieces(right, 0, key, {0: piece})


def moved(times: float, *, everywhere: bool = False) -> Trace:
    """A candidate with one element, or all, moved by so many times the update."""
    before = numbers.weights(CASE)[NAME]

    def spoil(_step: int, key: Key, value: Floats) -> Floats:
        if key != (Stage.UPDATE, NAME):
            return value
        other = before + times * (value - before)
        kept = value.copy()
        kept[FIRST] = other[FIRST]
        return other if everywhere else kept

    return candidate(CASE, spoil)


def shown(gradient: float, actual: Trace) -> set[str]:
    """The tensors of updates that are wrong."""
    divergences = compare(CASE, "backend", "side", expected(gradient), actual).divergences
    return {one.tensor for one in divergences if one.stage is Stage.UPDATE}


@pytest.mark.parametrize(
    ("gradient", "times", "wrong"),
    [(0.0, -1.0, False), (0.5, -1.0, True), (0.0, -2.0, True), (0.0, 4.0, True)],
)
def test_one_element_may_move_the_other_way_where_its_gradient_has_no_sign(
    gradient: float, times: float, *, wrong: bool
) -> None:
    assert (NAME in shown(gradient, moved(times))) is wrong


def test_a_parameter_that_moved_the_other_way_as_a_whole_is_wrong() -> None:
    assert NAME in shown(0.0, moved(-1.0, everywhere=True))


def test_of_many_elements_without_a_sign_few_may_have_moved_the_other_way() -> None:
    silent = expected(0.0)
    key = Stage.BACKWARD, NAME
    nothing = np.zeros_like(silent.steps[0][key].pieces[0])
    quiet = with_pieces(silent, 0, key, {0: nothing})
    divergences = compare(CASE, "backend", "side", quiet, moved(-1.0, everywhere=True)).divergences
    assert NAME in {one.tensor for one in divergences if one.stage is Stage.UPDATE}
