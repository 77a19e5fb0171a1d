"""`difftest report --known`: an older campaign's findings with what the ledger says of them today."""

import json
from pathlib import Path

import pytest
from command_line import command
from msgspec.structs import replace
from sample_findings import ParsedPage, a_corpus, a_finding, an_observation
from samples import a_case

from difftest.records.finding import Uncovered

FINGERPRINT = a_finding().fingerprint
ISSUE, SCRIPT = "https://github.com/pytorch/xla/issues/1", "difftest/findings/known/its_script.py"
NEED, KNOWN = "1 cause needs you.", "No findings need you. 1 cause is known."
SHOWN = replace(a_finding(), hits=1, cases_by_campaign={"first": 1})


def a_ledger(folder: Path, upstream: str = ISSUE, expires: str = "2099-01-01", **patterns: object) -> Path:
    """A ledger with one entry, about the sample finding."""
    file = folder / "known.toml"
    entry = {"fingerprint": SHOWN.divergence.fingerprint, "upstream": upstream, **patterns}
    fields = "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
    file.write_text(f'[[known]]\n{fields}reason = "a known fault"\nexpires = {expires}\n')
    return file


def reported(out: Path, ledger: Path) -> str:
    """The headline of the page that the command writes."""
    done = command("report", out, "--format", "html", "--known", ledger)
    assert done.status == 0, done.output
    text = ParsedPage((out / "report.html").read_text()).text
    return next(line for line in text.splitlines() if "need" in line and "you." in line)


@pytest.mark.long
def test_a_finding_that_the_ledger_knows_by_now_is_known_on_the_page_and_on_disk(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, an_observation(0), findings=(SHOWN,))
    (tmp_path / "none.toml").write_text("")
    assert reported(tmp_path, tmp_path / "none.toml") == NEED
    assert reported(tmp_path, a_ledger(tmp_path)) == KNOWN
    assert corpus.finding(FINGERPRINT) == replace(SHOWN, upstream=ISSUE)
    assert reported(tmp_path, a_ledger(tmp_path, SCRIPT)) == KNOWN
    assert corpus.finding(FINGERPRINT).upstream == SCRIPT, "another entry is about it now"
    page = ParsedPage((tmp_path / "report.html").read_text()).text
    assert "XLA SPMD: a known fault" in page, "its title is that of the ledger that knows it"


def test_one_whose_entry_has_expired_is_new_again_until_a_campaign_announces_it(tmp_path: Path) -> None:
    listed = replace(SHOWN, upstream=ISSUE, announced="2026-01-05")
    corpus = a_corpus(tmp_path, an_observation(0), findings=(listed,))
    assert reported(tmp_path, a_ledger(tmp_path, expires="2026-01-01")) == NEED
    finding = corpus.finding(FINGERPRINT)
    assert (finding.upstream, finding.new_in, finding.announced) == ("", ("first", 0), "")


@pytest.mark.long
def test_one_that_also_showed_in_a_way_that_no_entry_covers_stays_new(tmp_path: Path) -> None:
    other = replace(SHOWN.divergence, tensor="another")
    uncovered = Uncovered(divergence=other, case=a_case().to_json().decode())
    both = replace(SHOWN, new_in=("first", 0), uncovered=uncovered)
    corpus = a_corpus(tmp_path, an_observation(0), findings=(both,))
    assert reported(tmp_path, a_ledger(tmp_path, **{"what.tensor": SHOWN.divergence.tensor})) == NEED
    assert corpus.finding(FINGERPRINT) == both
    of_other = a_ledger(tmp_path, **{"what.tensor": "another"})
    assert reported(tmp_path, of_other) == NEED, "its own is not covered"
    assert reported(tmp_path, a_ledger(tmp_path)) == KNOWN


def test_json_names_the_findings_that_changed_and_a_second_call_has_none(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0), findings=(SHOWN,))
    call = ("report", tmp_path, "--format", "html", "--known", a_ledger(tmp_path))
    first, second = (json.loads(command(*call, "--json").output) for _ in range(2))
    assert (first["known"], first["unknown"]) == ([FINGERPRINT], [])
    assert (second["known"], second["unknown"]) == ([], [])


def test_what_changed_is_printed(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0), findings=(replace(SHOWN, upstream=ISSUE),))
    output = command("report", tmp_path, "--format", "html").output
    assert f"unknown by the ledger of today: {FINGERPRINT}" in output


@pytest.mark.parametrize("text", ["[[known]]\n", "no toml"])
def test_a_ledger_that_cannot_be_read_is_refused_before_anything_is_written(
    tmp_path: Path, text: str
) -> None:
    a_corpus(tmp_path, an_observation(0), findings=(SHOWN,))
    (tmp_path / "known.toml").write_text(text)
    done = command("report", tmp_path, "--known", tmp_path / "known.toml")
    assert done.status == 2
    assert "known.toml" in done.output
    assert not (tmp_path / "report.html").exists()
