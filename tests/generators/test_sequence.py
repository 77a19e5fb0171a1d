"""Which cases a campaign has: blocks of programs come between the other cases and change none of them."""

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from generated_cases import ALONE, IN_BLOCKS

from difftest.campaign.groups import MOST_CASES, grouped
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.findings.ledger import LEDGER_FILE
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import generated_cases, is_complete
from difftest.jobs.campaign.progress import announce
from difftest.jobs.campaign.tally import IN_PART, NO_EVIDENCE, NOT_TRIAGED, Tally
from difftest.records.resume import CampaignRecord
from generators.ahead import cases_ahead
from generators.cases import case_at
from generators.operators import schedule
from generators.paths import chosen
from generators.sequence import BLOCK, numbers

SEED = 23
MIXED = ("data_parallel", *IN_BLOCKS)


def is_program(number: CaseNumber) -> bool:
    return number.series == Series.PROGRAM


def recorded(numbers: Iterable[CaseNumber]) -> list[int]:
    return [number.recorded for number in numbers]


def request(cases: int | None, paths: tuple[str, ...] = MIXED) -> CampaignRequest:
    return CampaignRequest(
        out=Path("results"),
        ledger=LEDGER_FILE,
        fail_on=("new",),
        as_json=False,
        seed=SEED,
        cases=cases,
        budget=None if cases else 3600.0,
        paths=paths,
        max_world_size=8,
        twice_every=0,
    )


def drawn(cases: int | None, recorded: CampaignRecord | None = None) -> list[tuple[int, Case]]:
    endless = generated_cases(request(cases), recorded or CampaignRecord())
    return list(itertools.islice(endless, None if cases else 3 * BLOCK))


def test_a_block_of_programs_comes_before_every_full_block_of_other_cases() -> None:
    in_order = [is_program(number) for number in numbers(chosen(None), 2 * BLOCK + 3)]
    shape = [(kind, len(list(same))) for kind, same in itertools.groupby(in_order)]
    assert shape == [(True, BLOCK), (False, BLOCK), (True, BLOCK), (False, BLOCK + 3)]
    assert not any(map(is_program, numbers(chosen(None), BLOCK - 1)))


@pytest.mark.parametrize("programs", [0, 7, 3 * BLOCK])
def test_so_many_programs_as_wanted_come_before_every_full_block_of_other_cases(programs: int) -> None:
    every = list(numbers(chosen(None), 2 * BLOCK, programs=programs))
    assert [number for number in every if not is_program(number)] == list(map(CaseNumber, range(2 * BLOCK)))
    places = [number.index for number in every if is_program(number)]
    assert places == list(range(2 * programs)), "they are numbered one after another"
    assert every[:programs] == [CaseNumber(place, Series.PROGRAM) for place in range(programs)]
    assert list(itertools.islice(numbers(chosen(None), programs=programs), len(every))) == every


def test_a_small_campaign_runs_every_path_that_it_names() -> None:
    paths = ("blocks", "features", "modules")
    cases = [case_at(SEED, number, paths=paths) for number in numbers(paths, 4)]
    assert [case.path for case in cases] == ["modules"] * 4 + ["blocks", "features"] * 2
    assert {*numbers(paths, 4)} < {*numbers(paths, BLOCK)}


@pytest.mark.parametrize("paths", [ALONE, IN_BLOCKS])
def test_paths_of_one_kind_are_numbered_from_zero(paths: tuple[str, ...]) -> None:
    assert recorded(numbers(paths, 2 * BLOCK)) == list(range(2 * BLOCK))


def test_more_cases_continue_a_campaign() -> None:
    names = chosen(None)
    assert {*numbers(names, 2 * BLOCK)} < {*numbers(names, 3 * BLOCK)}
    assert list(itertools.islice(numbers(names), 6 * BLOCK)) == list(numbers(names, 3 * BLOCK))


@pytest.mark.parametrize("number", [0, 5, BLOCK + 1])
def test_a_case_is_the_same_with_and_without_the_paths_in_blocks(number: int) -> None:
    assert case_at(SEED, number) == case_at(SEED, number, paths=ALONE)
    assert case_at(SEED, CaseNumber(number, Series.PROGRAM)) == case_at(SEED, number, paths=IN_BLOCKS)


def test_a_block_is_one_group_of_programs_with_one_mesh() -> None:
    assert BLOCK == schedule.BLOCK == MOST_CASES
    groups = [group for group in grouped(drawn(BLOCK)) if len(group) > 1]
    assert [len(group) for group in groups] == [BLOCK]
    assert len({case.layout.mesh for _, case in groups[0]}) == 1


def test_a_campaign_continues_where_it_stopped_within_a_block() -> None:
    whole = drawn(BLOCK)
    done = [*whole[:7], *whole[BLOCK : BLOCK + 2]]
    recorded = CampaignRecord(cases={(index, case.id) for index, case in done})
    assert drawn(BLOCK, recorded) == [one for one in whole if one not in done]
    assert not is_complete(request(BLOCK), recorded)
    recorded.cases |= {(index, case.id) for index, case in whole}
    assert drawn(BLOCK, recorded) == []
    assert is_complete(request(BLOCK), recorded)


def test_a_budget_without_a_number_of_cases_gives_blocks_too() -> None:
    assert [index for index, _ in drawn(None)] == recorded(itertools.islice(numbers(MIXED), 3 * BLOCK))


def test_the_first_hundred_cases_and_their_programs_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.ahead.ProcessPoolExecutor", None)
    indices = recorded(numbers(MIXED, 2 * BLOCK))
    assert [index for index, _ in cases_ahead(SEED, indices, paths=MIXED)] == indices


@pytest.mark.parametrize(
    ("cases", "paths", "words"),
    [
        (BLOCK, MIXED, "20 cases and 20 programs of seed 23;"),
        (BLOCK - 1, MIXED, "19 cases of seed 23;"),
        (BLOCK, IN_BLOCKS, "20 cases of seed 23;"),
        (None, MIXED, "cases of seed 23 within 3600 s;"),
    ],
)
def test_what_will_run_is_said_at_once(
    cases: int | None, paths: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(request(cases, paths))
    assert capsys.readouterr().err.startswith(words)


@pytest.mark.parametrize(
    ("cases", "programs", "words"),
    [(40, 0, "40 cases"), (80, 40, "40 cases and 40 programs"), (60, 60, "60 programs"), (0, 0, "0 cases")],
)
def test_what_ran_is_counted_by_kind(cases: int, programs: int, words: str) -> None:
    assert Tally(cases=cases, programs=programs).cases_in_words == words


def test_what_there_was_no_time_for_is_one_thing_or_several() -> None:
    unfinished = Counter({IN_PART: 3, NO_EVIDENCE: 1, NOT_TRIAGED: 0})
    words = "3 cases compared in part, 1 finding without all evidence"
    assert Tally(unfinished=unfinished).unfinished_in_words == words
