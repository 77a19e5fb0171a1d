"""Further inputs of a case: the same program with other numbers, as cases with numbers of their own."""

import itertools
from pathlib import Path

import msgspec
import pytest
from own_models import own_description

from difftest.campaign.groups import can_share
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.options import WHOLE
from generators import own
from generators.cases import case_at
from generators.paths import chosen
from generators.sequence import BLOCK, numbers, split
from generators.training import fitting_regimes

SEED, CASES, INPUTS = 29, 60, 6


def inputs_of(index: int) -> list[Case]:
    return [case_at(SEED, CaseNumber(index, input=further)) for further in range(INPUTS)]


def test_inputs_come_right_after_their_case_and_change_no_number_of_another() -> None:
    alone, _ = split(chosen(None))
    assert list(map(str, numbers(alone, 2, 3))) == ["0", "0/1", "0/2", "1", "1/1", "1/2"]
    mixed = list(numbers(chosen(None), BLOCK, 2))
    assert [number for number in mixed if not number.input] == list(numbers(chosen(None), BLOCK))
    programs = [number for number in mixed if number.series == Series.PROGRAM]
    assert len(programs) == BLOCK, "a program has one input"


@pytest.mark.parametrize("paths", [("operators",), ("modules", "operators")])
def test_a_campaign_of_programs_alone_has_no_further_inputs(paths: tuple[str, ...]) -> None:
    assert list(numbers(paths, BLOCK, 4)) == list(numbers(paths, BLOCK))


@pytest.mark.long
def test_the_inputs_of_a_case_are_different_cases_of_one_program() -> None:
    shared = 0
    for index in range(CASES):
        inputs = inputs_of(index)
        assert len({case.id for case in inputs}) == INPUTS
        assert len({case.seed for case in inputs}) == INPUTS
        bare = [msgspec.structs.replace(case, data=inputs[0].data, seed=0) for case in inputs]
        assert len({case.id for case in bare}) == 1
        shared += all(itertools.starmap(can_share, itertools.pairwise(inputs)))
        assert inputs[0].start.acts[0] != "spmd" or can_share(*inputs[:2])
    assert shared > CASES // 2


def test_inputs_are_of_every_regime_that_fits_and_of_no_other() -> None:
    regimes = set[str]()
    for inputs in map(inputs_of, range(CASES)):
        first = inputs[0]
        reached = {case.data.regime for case in inputs}
        if first.data.learnable or first.data.regime in ("exact", "large"):
            assert reached == {first.data.regime}, "these need a learning rate of their own"
            continue
        fitting = {one for _, one in fitting_regimes(model=first.model, dtype=first.dtype)} - {"large"}
        assert reached == (fitting & {*WHOLE} if first.forms.integers else fitting)
        regimes |= reached
    assert regimes == {"normal", "ties", "zeros", "tiny", "sharp"}


def test_an_input_of_a_users_model_differs_in_the_seed_alone(tmp_path: Path) -> None:
    described = own_description(tmp_path)
    pair = (CaseNumber(3), CaseNumber(3, input=1))
    first, other = (own.case_at(described, SEED, number, max_world_size=4) for number in pair)
    assert first.seed != other.seed
    assert msgspec.structs.replace(first, seed=other.seed) == other
