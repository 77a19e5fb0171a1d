"""The named kinds of damage.

A mismatch has a name only if every element fits it, and one fault has the same name in all cases.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import (
    Key,
    Spoil,
    a_case,
    candidate,
    oracle,
    tensor_parallel_case,
    with_pieces,
    with_tensor,
    wrong_at,
)

from difftest.cases import numbers
from difftest.cases.case import Training
from difftest.cases.layout import Mesh, Placements, Replicate, Shard, local_slices
from difftest.judge.comparator import compare
from difftest.judge.damage import (
    ALONE,
    COARSE,
    COUNTED,
    LONELY,
    MOVED,
    NEGATED,
    NOT_UPDATED,
    SCALED,
    UNMASKED,
    ZERO,
    Floats,
    moved,
    nature,
    not_updated,
)
from difftest.judge.outcome import Sharded
from difftest.judge.stage import Stage

MESH = Mesh(axes=(("dp", 4),))
NOISE = 1e-6


def held(value: Floats, *placements: Shard | Replicate) -> Sharded:
    placed: Placements = placements
    pieces = {rank: value[local_slices(value.shape, placed, MESH, rank)] for rank in range(MESH.world_size)}
    return Sharded(shape=value.shape, dtype="float32", placements=placed, pieces=pieces)


def truth(*shape: int) -> Floats:
    return np.random.default_rng(1).normal(size=shape)


def of_output(expected: Floats, value: Floats) -> str:
    return nature(expected, np.full(expected.shape, NOISE), held(value, Shard(0)), MESH, output=True)


def of_gradient(value: Floats) -> str:
    return nature(truth(8, 3), np.full((8, 3), NOISE), held(value, Replicate()), MESH, output=False)


@pytest.mark.parametrize(
    ("factor", "word"),
    [(-1.0, NEGATED), (4.0, COUNTED), (0.25, COUNTED), (3.0, SCALED), (1.01, SCALED), (0.0, ZERO)],
)
def test_the_constant_factor_of_a_gradient_determines_the_damage(factor: float, word: str) -> None:
    assert of_gradient(factor * truth(8, 3)) == word


@pytest.mark.parametrize(("factor", "word"), [(4.0, COUNTED), (0.25, COUNTED), (0.3, SCALED), (3.7, SCALED)])
def test_a_number_of_ranks_is_recognised_in_coarse_numbers(factor: float, word: str) -> None:
    """Each number is off by up to 5 %, so that all together say the factor to within 2 %."""
    expected = truth(8, 3)
    value = factor * expected * (1.0 + np.random.default_rng(2).uniform(-0.05, 0.05, size=(8, 3)))
    floors = 0.05 * np.abs(expected)
    assert nature(expected, floors, held(value, Replicate()), MESH, output=False) == word


@given(st.integers(0, 7), st.integers(0, 2), st.floats(1e-3, 1e3))
def test_a_gradient_with_one_element_that_does_not_fit_has_no_named_damage(
    row: int, column: int, error: float
) -> None:
    value = 4.0 * truth(8, 3)
    value[row, column] += error
    assert not of_gradient(value)


@pytest.mark.parametrize(("wrong", "word"), [(1, ""), (2, ""), (3, SCALED), (6, SCALED)])
def test_a_factor_that_rounding_hides_from_most_elements_names_no_damage(wrong: int, word: str) -> None:
    """A constant near 1 fits a tensor of which one element alone is off by more than rounding."""
    expected, floors = np.ones(6), np.full(6, 1.0)
    floors[:wrong] = NOISE
    shown = nature(expected, floors, held(1.0001 * expected, Replicate()), MESH, output=False)
    assert shown == word


def test_an_output_that_is_right_on_the_first_rank_alone_is_named() -> None:
    expected = truth(8, 3)
    value = expected + 1.0
    value[:2] = expected[:2]
    assert of_output(expected, value) == ALONE
    value[2:4] = expected[2:4]
    assert not of_output(expected, value)


def test_an_output_of_copies_that_is_right_on_the_first_rank_alone_is_named() -> None:
    expected, noise = truth(8, 3), np.full((8, 3), NOISE)
    actual = held(expected, Replicate())
    off = {rank: piece + 1.0 for rank, piece in actual.pieces.items() if rank}
    assert (
        nature(expected, noise, replace(actual, pieces={**actual.pieces, **off}), MESH, output=True) == ALONE
    )
    off = {rank: piece for rank, piece in off.items() if rank > 1}
    assert not nature(expected, noise, replace(actual, pieces={**actual.pieces, **off}), MESH, output=True)


def test_an_output_right_at_the_last_position_alone_lacks_its_causal_mask() -> None:
    expected = truth(8, 5, 3)
    value = expected + 1.0
    value[:, -1] = expected[:, -1]
    assert of_output(expected, value) == UNMASKED
    value[:, 0] = expected[:, 0]
    assert not of_output(expected, value)


def test_an_output_off_by_bfloat16_rounding_is_coarse_and_one_off_by_more_is_not() -> None:
    expected = truth(64, 8)
    off = np.random.default_rng(2).choice((-1.0, 1.0), expected.shape)
    assert of_output(expected, expected * (1.0 + off * 2.0**-9)) == COARSE
    assert not of_output(expected, expected * (1.0 + off * 0.5))
    assert not of_output(expected, expected * np.where(off > 0, 1.0, 1.0 + 2.0**-9)), "half of it is right"


def test_values_that_are_not_finite_have_no_named_damage() -> None:
    value = truth(8, 3)
    value[0, 0] = np.nan
    assert not of_gradient(value)


def test_a_fault_that_begins_with_the_second_step_has_another_fingerprint() -> None:
    case = a_case(training=Training(steps=2))
    first, late = (
        compare(
            case, "ddp", "torch", oracle(case), candidate(case, wrong_at(Stage.UPDATE, "0.weight", step=step))
        ).divergences[0]
        for step in (0, 1)
    )
    assert (first.nature, late.nature) == ("", "after the first step")
    assert first.fingerprint != late.fingerprint


@given(st.integers(0, 7), st.integers(1, 7), st.floats(0.0, 0.01))
def test_swapped_rows_are_recognised_despite_a_small_update(row: int, further: int, rate: float) -> None:
    initial, update = truth(8, 3), rate * np.random.default_rng(2).normal(size=(8, 3))
    swapped = np.array(initial)
    swapped[[row, (row + further) % 8]] = initial[[(row + further) % 8, row]]
    assert moved(initial, initial + update, swapped + update)


@given(st.integers(2, 2000), st.floats(-4.0, 4.0))
def test_a_wrong_update_is_not_taken_for_swapped_rows(size: int, factor: float) -> None:
    random = np.random.default_rng(size)
    initial, update = random.normal(size=size), 0.1 * random.choice((-1.0, 1.0), size)
    assert not moved(initial, initial + update, initial + update * np.sign(factor))
    assert not moved(initial, initial + update, initial + update + factor)


def test_swapped_rows_of_a_parameter_are_named_in_the_divergence_of_the_output() -> None:
    case = a_case(training=Training(learning_rate=2.0**-10))

    def swap(_step: int, key: Key, value: Floats) -> Floats:
        if key == (Stage.UPDATE, "0.weight"):
            return value[::-1]
        return value + 1.0 if key == (Stage.FORWARD, "output") else value

    first, *_ = compare(case, "ddp", "torch", oracle(case), candidate(case, swap)).divergences
    assert (first.tensor, first.nature) == ("output", MOVED)


def test_a_parameter_wrong_on_one_rank_and_one_wrong_everywhere_have_different_fingerprints() -> None:
    case = tensor_parallel_case()
    right = candidate(case)
    pieces = right.steps[0][Stage.UPDATE, "0.weight"].pieces
    lone = with_pieces(right, 0, (Stage.UPDATE, "0.weight"), {1: pieces[1] + 1.0})
    everywhere = with_pieces(lone, 0, (Stage.UPDATE, "0.weight"), {0: pieces[0] - 1.0})
    descriptions = [
        compare(case, "fsdp", "torch", oracle(case), actual).divergences[0] for actual in (lone, everywhere)
    ]
    assert [divergence.nature for divergence in descriptions] == [LONELY, ""]
    assert descriptions[0].fingerprint != descriptions[1].fingerprint


def lost_update(step: int, key: Key, value: Floats) -> Floats:
    """Leaves the first row of a weight as it was before the first step."""
    if step > 0 or key != (Stage.UPDATE, "0.weight"):
        return value
    return np.concatenate([numbers.weights(a_case())["0.weight"][:1], value[1:]])


@pytest.mark.parametrize(
    ("spoil", "word"), [(lost_update, NOT_UPDATED), (wrong_at(Stage.UPDATE, "0.weight"), "")]
)
def test_a_parameter_that_is_as_before_its_update_where_it_is_wrong_is_not_updated(
    spoil: Spoil, word: str
) -> None:
    first, *others = compare(
        a_case(), "ddp", "torch", oracle(a_case()), candidate(a_case(), spoil)
    ).divergences
    assert (first.tensor, first.nature, others) == ("0.weight", word, [])


def test_a_small_parameter_that_is_not_updated_is_not_called_the_correct_one_times_a_constant() -> None:
    expected, noise = np.array([0.9, 1.8]), np.full(2, 1e-3)
    assert not_updated(np.array([1.0, 2.0]), expected, noise, np.array([1.0, 2.0]))
    assert not not_updated(np.array([1.0, 2.0]), expected, noise, np.array([1.1, 2.0])), "one was changed"
    assert not not_updated(expected, expected, noise, expected), "none is wrong"


def test_an_update_that_is_missing_in_a_later_step_is_compared_with_the_step_before() -> None:
    case = a_case(training=Training(steps=2))
    right = candidate(case)
    before = right.steps[0][Stage.UPDATE, "0.weight"]
    late = with_tensor(right, 1, (Stage.UPDATE, "0.weight"), before)
    first, *_ = compare(case, "ddp", "torch", oracle(case), late).divergences
    assert (first.step, first.nature) == (1, f"{NOT_UPDATED}, after the first step")
