"""The last days of the ledger's entries: spread, announced before they come, and renewed by a tool."""

import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from difftest.findings.ledger import NOTICE, Entry, Ledger, read_ledger
from difftest.jobs.campaign.printed_summary import print_ending
from difftest.jobs.campaign.tally import Tally
from difftest.records.conclusion import Conclusion
from tools.renew import TOGETHER, last_day, main

TODAY = date(2026, 11, 27)
ENTRY = Entry(fingerprint="xla_spmd-*", upstream="u", reason="r", expires=TODAY)
MOST_A_DAY = 12


def ending(*days: int) -> Ledger:
    return Ledger(entries=tuple(replace(ENTRY, expires=TODAY + timedelta(day)) for day in days))


def test_few_entries_of_the_projects_ledger_end_on_one_day() -> None:
    days = Counter(entry.expires for entry in read_ledger().entries)
    assert max(days.values()) <= MOST_A_DAY
    assert max(days) - min(days) > timedelta(180)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ((), ""),
        ((31, 200), ""),
        ((-1,), ""),
        (
            (30, 31),
            "1 entry of the ledger of known faults will expire by 2026-12-27, the first on 2026-12-27",
        ),
        (
            (9, 0, 30, 40),
            "3 entries of the ledger of known faults will expire by 2026-12-27, the first on 2026-11-27",
        ),
    ],
)
def test_entries_are_announced_thirty_days_before_they_expire(days: tuple[int, ...], words: str) -> None:
    assert timedelta(30) == NOTICE
    assert ending(*days).warning(TODAY) == words


@pytest.mark.parametrize("days", [(3,), (300,)])
def test_the_end_of_a_campaign_has_one_line_about_entries_that_expire_soon(
    days: tuple[int, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("difftest.jobs.campaign.printed_summary.utc_today", lambda: TODAY)
    print_ending(Tally(ledger=ending(*days)), (), {}, Conclusion())
    assert capsys.readouterr().out.count("will expire by") == (days == (3,))


TEXT = """
title = "a"
expires = 2026-01-01

[[shows]]
fingerprint = "b-*"
expires = 2026-01-02
"""


def test_renewing_changes_the_last_days_alone_and_those_of_the_named_faults(tmp_path: Path) -> None:
    first = date(2027, 2, 1)
    for name in ("one", "other"):
        (tmp_path / f"{name}.toml").write_text(TEXT)
    main(str(first), "other", known=tmp_path)
    assert (tmp_path / "one.toml").read_text() == TEXT
    day = str(last_day(first, "other", 0))
    assert (tmp_path / "other.toml").read_text() == re.sub(r"2026-01-0\d", day, TEXT)
    main(str(first), known=tmp_path)
    assert "2026-01" not in (tmp_path / "one.toml").read_text()


def test_entries_of_one_fault_end_together_up_to_a_number() -> None:
    first = date(2027, 2, 1)
    days = [last_day(first, "one", number) for number in range(2 * TOGETHER)]
    assert len(set(days[:TOGETHER])) == 1
    assert days[TOGETHER] != days[0]
    assert all(first <= day < first + timedelta(240) for day in days)
