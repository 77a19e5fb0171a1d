"""The faults the service was made for: every row of the README's table comes out of the generated case that it names, blamed as it says."""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from generators.cases import case_at
from workers.isolate import sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="torch_xla is not installed"),
]

README = (Path(__file__).parents[1] / "README.md").read_text()
TABLE = README[README.index("## The faults it was made for") :].split("\n## ")[0]
MOST_CASES = 200
ISSUES = ("#8396", "#8334", "#9735", "#8812", "#8534", "#9472")
OTHER_SIDE = "torch_dtensor"

TAKE_MINUTES = ("flash_ids_not_sharded", "flash_backward_ids_not_sharded", "flash_keys_cut_like_queries")
"""The nightly job runs these; `tests/test_flash_attention.py` plants them in a small case."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: the case's number from 1, of `path` alone or of all, and what it gives with the `defect` planted, if any."""

    number: int
    path: str
    defect: str
    fingerprint: str
    decided: str
    blame: str


def rows() -> list[Row]:
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TABLE.splitlines()
        if line.startswith("| ")
    ][1:]
    return [row(*cells) for cells in lines if set(cells[0]) != {"-"}]


def row(_issue: str, state: str, case: str, _minutes: str, finding: str, blame: str) -> Row:
    numbered = re.fullmatch(r"(\d+)(?: of `(\w+)`)?", case)
    assert numbered, f"a case is `N` or `N of `PATH``, not {case!r}"
    number, path = numbered.groups()
    defect, decided = re.search(r"planted `(\w+)`", state), re.search(r"decided by `([^`]+)`", finding)
    fingerprint = finding.split("`")[1]
    return Row(
        number=int(number),
        path=path or "",
        defect=defect[1] if defect else "",
        fingerprint=fingerprint,
        decided=decided[1] if decided else "",
        blame=blame,
    )


def found(told: Row, folder: Path) -> Finding | None:
    """What a campaign of the row's case alone finds on the row's backend."""
    from workers.backends import candidates  # noqa: PLC0415
    from workers.faults import VARIABLE  # noqa: PLC0415

    backend = told.fingerprint.partition("-")[0]

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        planted = {VARIABLE: told.defect} if told.defect and name == backend else {}
        return sandbox.run(case, name, options={**options, **planted})

    corpus = Corpus(folder)
    corpus.prepare()
    campaign = Campaign(
        name="mission", backends=candidates((backend, OTHER_SIDE)), execute=execute, corpus=corpus
    )
    case = case_at(0, told.number - 1, paths=(told.path,) if told.path else None)
    (progress,) = run(campaign, [(told.number - 1, case)])
    return next((finding for finding in progress.new if finding.backend == backend), None)


def test_the_table_has_every_fault() -> None:
    assert all(issue in TABLE for issue in ISSUES)
    assert max(told.number for told in rows()) <= MOST_CASES


PARAMETERS = [
    pytest.param(
        told,
        id=told.defect or told.fingerprint,
        marks=[pytest.mark.nightly] if told.defect in TAKE_MINUTES else [],
    )
    for told in rows()
]


@pytest.mark.parametrize("told", PARAMETERS)
def test_a_fault_comes_out_of_the_generated_case_that_the_table_names(told: Row, tmp_path: Path) -> None:
    finding = found(told, tmp_path)
    assert finding is not None
    assert (finding.fingerprint, finding.blame) == (told.fingerprint, told.blame)
    if told.decided:
        assert finding.evidence["decided by"] == told.decided
