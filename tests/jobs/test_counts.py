"""One definition of run, case, new and known: terminal, JSON, page, summary and table agree on the counts."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from machines import CASES_A_NIGHT, FIRST_NIGHT, SIDES, FakeCluster, backend, nightly_run
from sample_findings import ParsedPage

from difftest import cli
from difftest.cases import twins
from difftest.commands import nightly
from difftest.jobs.campaign import generated_cases
from difftest.jobs.campaign import run as campaign_job
from difftest.records.corpus import Corpus

CASES = 4
LEDGER = """
[[known]]
fingerprint = "spmd-*"
reason = "sharded matmuls are wrong"
upstream = "https://github.com/pytorch/xla/issues/1"
expires = 2099-01-01
"""
SAID = re.compile(
    r"(?P<cases>[\d,]+) cases?(?: and (?P<programs>[\d,]+) programs?)?, (?P<runs>[\d,]+) runs? in "
)
NEED, KNOWN = r"(\d+) causes? needs? you", r"(\d+)(?: causes?)? (?:is|are) known"
STANDINGS = re.compile(r"(\d+) (?:understood, not reported|reported|fixed)\b")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    for module in (nightly, campaign_job):
        monkeypatch.setattr(module, "campaign_on_cluster", made.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", made.cases)
    return made


def difftest(*words: object) -> Result:
    return CliRunner().invoke(cli.difftest, [str(word) for word in words], standalone_mode=False)


def hold(out: Path, terminal: str, printed: dict[str, Any]) -> None:
    """The counts of what was printed and of all that was written into the folder are alike."""
    summary = json.loads((out / "summary.json").read_text())
    runs = pd.read_parquet(out / "table.parquet").drop_duplicates("run")
    page = ParsedPage((out / "report.html").read_text()).text
    counts = SAID.search(terminal)
    assert counts
    assert int(counts["runs"]) == summary["runs"] == len(runs)
    cases = runs.loc[runs["path"] != twins.PATH, "case"].nunique()
    assert int(counts["cases"]) + int(counts["programs"] or 0) == summary["cases"] == cases
    assert re.search(rf"\b{len(runs)}\s*runs\b", page)
    findings = {finding.fingerprint for finding in Corpus(out / "corpus").findings()}
    new = {finding["fingerprint"] for finding in summary["findings"] if finding["new"]}
    assert set(printed["new"]) == new
    assert set(printed["new"]) | set(printed["known"]) == findings
    of_upstream = {finding["fingerprint"] for finding in summary["findings"] if finding["upstream"]}
    assert of_upstream <= set(printed["known"])
    assert ("need" in terminal) == bool(findings), "there is nothing to say about none"
    nobody = "No findings need you."
    assert (nobody in page) == (findings == of_upstream)
    assert not findings or (nobody in terminal) == (findings == of_upstream)
    assert summary["headline"] in page
    lines = terminal.splitlines()
    by_standing = next((line for line in lines if STANDINGS.search(line)), "")
    rest = sum(int(number.replace(",", "")) for number in STANDINGS.findall(by_standing))
    needing, known = (re.search(pattern, summary["headline"]) for pattern in (NEED, KNOWN))
    need = int(needing[1]) if needing else 0
    assert rest == (int(known[1]) if known else 0), "the lines below the headline sum to it"
    said = re.search(r"with (\d+) causes?", terminal)
    assert need + rest == (int(said[1]) if said else len(findings))
    words = (f"{len(new)} new" if new else "", f"{len(of_upstream)} known" if of_upstream else "")
    assert all(word in summary["verdict"] for word in words)


@pytest.mark.parametrize("kind", ["right", "unknown", "known"])
def test_the_counts_of_a_campaign_agree(cluster: FakeCluster, tmp_path: Path, kind: str) -> None:
    if kind == "right":
        cluster.machine.wrong = {}
    words: list[object] = []
    if kind == "known":
        (tmp_path / "ledger.toml").write_text(LEDGER)
        words = ["--known", tmp_path / "ledger.toml"]
    first = difftest("run", "--cases", CASES, "--out", tmp_path / "out", *words)
    again = difftest("run", "--cases", CASES, "--out", tmp_path / "json", "--json", *words)
    assert first.exception is None, first.output
    hold(tmp_path / "out", first.stdout, json.loads(again.stdout))


def test_a_twin_is_no_case(cluster: FakeCluster, tmp_path: Path) -> None:
    reference = backend("definition")
    reference.unsupported = twins.no_twin
    cluster.backends = {"numpy": reference, **{name: backend(side) for name, side in SIDES.items()}}
    cluster.references = frozenset({"numpy"})
    words = ("run", "--cases", CASES, "--references-every", 1)
    first = difftest(*words, "--out", tmp_path / "out")
    again = difftest(*words, "--out", tmp_path / "json", "--json")
    hold(tmp_path / "out", first.stdout, json.loads(again.stdout))
    paths = pd.read_parquet(tmp_path / "out" / "table.parquet").drop_duplicates("case")["path"]
    assert (paths == twins.PATH).sum() == CASES_A_NIGHT
    assert f"{CASES_A_NIGHT} cases, " in first.stdout


def test_the_counts_of_a_night_agree(cluster: FakeCluster, tmp_path: Path) -> None:
    del cluster
    terminal = nightly_run(tmp_path / "out", date=FIRST_NIGHT).stdout
    printed = json.loads(nightly_run(tmp_path / "json", "--json", date=FIRST_NIGHT).stdout)
    hold(tmp_path / "out", terminal, printed)
