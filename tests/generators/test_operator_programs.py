"""The path of operator programs: which program is at which index."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers.operator import Operator
from difftest.ground.errors import UsageError
from generators.cases import case_at, cases
from generators.operators import schedule
from generators.operators.table import usable

ROOT = Path(__file__).parents[2]
PATHS = ("operators",)


def program_at(index: int, seed: int = 3, most: int = 8) -> Case:
    return case_at(seed, index, paths=PATHS, max_world_size=most)


@quietly()
@given(cases(paths=PATHS))
def test_a_drawn_program_is_read_back_from_its_json(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert Case.from_json(case.to_json()).id == case.id
    assert case.model.is_program
    assert 1 <= len(case.model.layers) <= 6


@quietly()
@given(cases(paths=PATHS))
def test_the_operators_of_a_drawn_program_use_earlier_results(case: Case) -> None:
    layers = [layer for layer in case.model.layers if isinstance(layer, Operator)]
    assert all(any("output" in name for name in layer.references()) or layer.operands for layer in layers)
    assert len(layers) == 1 or any("." in name for name in layers[-1].references())


def test_every_entry_comes_before_any_comes_again() -> None:
    order = [schedule.place_at(3, index, max_world_size=8) for index in range(len(usable()))]
    names = [place.single.operator.operator for place in order if place.single]
    assert sorted(names) == sorted(entry.name for entry in usable())
    plain = [place.single for place in order if place.single]
    assert {(single.dtype, single.regime) for single in plain} == {("float32", "normal")}
    assert sum(any(map(_is_cut, single.placements.values())) for single in plain) > 0.6 * len(plain)


@pytest.mark.long
def test_the_round_after_the_first_programs_has_variants_of_all_kinds_and_each_seed_others() -> None:
    blocks = -(-len(usable()) // schedule.BLOCK) + schedule.CHAIN_BLOCKS
    indices = range(5 * blocks * schedule.BLOCK, 5 * blocks * schedule.BLOCK + len(usable()))
    both = [[schedule.place_at(seed, index, max_world_size=2) for index in indices] for seed in (1, 2)]
    for places in both:
        singles = [place.single for place in places if place.single]
        assert {single.regime for single in singles} >= {"kinks", "nonfinite", "offset", "denormal", "tiny"}
        assert {single.dtype for single in singles} == {"float32", "bfloat16", "float16", "float64"}
    one, other = ({repr(place.single) for place in places if place.single} for places in both)
    assert len(one & other) < len(one) / 4


def _is_cut(placements: tuple[object, ...]) -> bool:
    return any(hasattr(placement, "dim") for placement in placements)


def test_successive_programs_have_one_mesh_in_blocks() -> None:
    for block in (0, 1, 2, 40, 77):
        meshes = {program_at(block * schedule.BLOCK + within).layout.mesh for within in (0, 7, 19)}
        assert len(meshes) == 1


def test_a_block_of_chains_has_one_mesh_too() -> None:
    first = -(-len(usable()) // schedule.BLOCK) * schedule.BLOCK
    chains = [program_at(index) for index in range(first, first + schedule.BLOCK)]
    assert len({case.layout.mesh for case in chains}) == 1
    assert all(len(case.model.layers) > 1 for case in chains)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_program_has_more_ranks_than_requested(most: int) -> None:
    assert {program_at(index * 20, most=most).world_size for index in range(8)} <= set(range(1, most + 1))


def test_sixty_programs_of_some_seed_are_on_one_two_and_four_ranks() -> None:
    assert [program_at(index, seed=5, most=4).world_size for index in (0, 20, 40)] == [1, 2, 4]
    assert program_at(0, seed=6).layout.mesh == program_at(0, seed=0).layout.mesh


def test_a_number_of_ranks_out_of_range_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="allowed"):
        program_at(0, most=0)


@pytest.mark.long
def test_the_order_of_requests_and_the_process_do_not_matter() -> None:
    wanted = (731, 3, 1502, 44)
    ids = [program_at(index).id for index in wanted]
    code = (
        "from generators.cases import case_at; import json;"
        f"print(json.dumps([case_at(3, i, paths={PATHS}).id for i in {sorted(wanted)}]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4321"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment, text=True, cwd=ROOT
    )
    assert dict(zip(sorted(wanted), json.loads(done.stdout), strict=True)) == dict(
        zip(wanted, ids, strict=True)
    )


def test_programs_of_a_seed_differ() -> None:
    drawn = [program_at(index) for index in range(0, 300, 7)]
    assert len({case.id for case in drawn}) == len(drawn)
    assert len({case.seed for case in drawn}) == len(drawn)


def test_the_numbers_of_a_program_can_be_made() -> None:
    for index in (0, 30, 610, 700, 1400):
        assert numbers.digest(program_at(index))
