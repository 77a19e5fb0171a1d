"""Cases that are drawn ahead are those of the seed, and no process outlives the one that it draws for."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from difftest.findings.ledger import LEDGER_FILE
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import SAMPLED, generated_cases
from difftest.records.resume import CampaignRecord
from generators import ahead
from generators.ahead import cases_ahead
from generators.cases import case_at
from generators.explore import BLOCK

SEED = 21
PATHS = ("data_parallel",)
INDICES = (0, 2, BLOCK, BLOCK + 1, 2 * BLOCK, 4 * BLOCK)
PATIENCE_SECONDS = 60.0


def ids(indices: tuple[int, ...] = INDICES) -> list[tuple[int, str]]:
    return [(index, case_at(SEED, index, paths=PATHS).id) for index in indices]


def test_a_campaign_of_one_block_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "ProcessPoolExecutor", None)
    drawn = [(index, case.id) for index, case in cases_ahead(SEED, (0, 2), paths=PATHS)]
    assert drawn == ids((0, 2))


@pytest.mark.slow
def test_cases_drawn_ahead_are_those_of_the_seed() -> None:
    assert [(index, case.id) for index, case in cases_ahead(SEED, INDICES, paths=PATHS)] == ids()


@pytest.mark.slow
def test_cases_are_drawn_on_when_a_drawing_process_is_killed() -> None:
    drawing = cases_ahead(SEED, INDICES, paths=PATHS)
    drawn = [(index, case.id) for index, case in (next(drawing), next(drawing), next(drawing))]
    for child in psutil.Process().children(recursive=True):
        if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline()):
            child.kill()
    assert drawn + [(index, case.id) for index, case in drawing] == ids()


@pytest.mark.slow
def test_drawing_processes_end_when_the_campaign_is_killed() -> None:
    code = (
        "from generators.ahead import cases_ahead\n"
        f"drawing = cases_ahead({SEED}, {INDICES}, paths={PATHS})\n"
        "print(next(drawing)[0], next(drawing)[0], next(drawing)[0], flush=True)\n"
        "input()\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as campaign:
        assert campaign.stdout
        assert campaign.stdout.readline() == f"0 2 {BLOCK}\n".encode()
        drawing = psutil.Process(campaign.pid).children(recursive=True)
        assert drawing
        os.kill(campaign.pid, signal.SIGKILL)
    _, left = psutil.wait_procs(drawing, timeout=PATIENCE_SECONDS)
    assert not left


def requested(cases: int) -> CampaignRequest:
    return CampaignRequest(
        out=Path(),
        ledger=LEDGER_FILE,
        fail_on=("new",),
        as_json=False,
        seed=SEED,
        cases=cases,
        paths=PATHS,
        max_world_size=8,
        twice_every=0,
    )


def test_a_recorded_case_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    last, drawn = 10 * BLOCK, list[int]()
    sample = ids(tuple(range(0, SAMPLED * BLOCK, BLOCK)))
    recorded = CampaignRecord(
        cases={(index, "0" * 12) for index in range(last) if index % BLOCK} | set(sample)
    )
    recorded.cases |= {(index, "0" * 12) for index in range(SAMPLED * BLOCK, last, BLOCK)}

    def counted(seed: int, number: CaseNumber | int, **options: Any) -> Case:  # noqa: ANN401  those of `case_at`
        drawn.append(number.recorded if isinstance(number, CaseNumber) else number)
        return case_at(seed, number, **options)

    monkeypatch.setattr("generators.cases.case_at", counted)
    monkeypatch.setattr("generators.ahead.case_at", counted)
    new = [(index, case.id) for index, case in generated_cases(requested(last + 1), recorded)]
    assert drawn == [*range(0, SAMPLED * BLOCK, BLOCK), last]
    assert new == ids((last,))


def test_recorded_cases_that_are_no_longer_the_seeds_are_drawn() -> None:
    recorded = CampaignRecord(cases={(0, "0" * 12), (1, "1" * 12)})
    drawn = [(index, case.id) for index, case in generated_cases(requested(2), recorded)]
    assert drawn == ids((0, 1))


@pytest.mark.slow
def test_the_drawing_processes_end_with_the_cases_of_a_campaign_that_is_stopped() -> None:
    before = set(psutil.Process().children(recursive=True))
    cases = generated_cases(requested(3 * BLOCK), CampaignRecord())
    for _ in range(BLOCK + 1):
        next(cases)
    drawing = set(psutil.Process().children(recursive=True)) - before
    assert any("spawn_main" in " ".join(one.cmdline()) for one in drawing)
    cases.close()
    assert not [one for one in drawing if one.is_running() and "spawn_main" in " ".join(one.cmdline())]
