"""The whole service with real workers of torch and torch_xla on Ray.

The tests run the front page's main job with fewer cases; a replay, and a second campaign on the same corpus,
run without Ray.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import answered
from generated_cases import ALONE
from installed_packages import needs
from pages import FRONT, ROOT, blocks, shell_commands

from difftest.campaign.campaign import ORACLE
from difftest.judge.noise import THRESHOLD
from difftest.records.corpus import Corpus
from difftest.records.evidence import DECIDED_BY
from workers.backends import candidates

pytestmark = [pytest.mark.slow, pytest.mark.xla]
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

from without_ray import without_ray  # noqa: E402

CASES = 7
"""One case on every path; the second shows one of the two DTensor faults, the fourth the other."""
FUNCTIONAL_ASSERT = "isFunctionalTensor"
MISSING_COORDINATE = "_coordinate_on_dim"


def difftest(*words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "difftest", *words, "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode < 2, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the front page's main job writes to runs/first, with fewer cases."""
    out = tmp_path_factory.mktemp("quick-start") / "runs" / "first"
    main = next(line for line in shell_commands(FRONT) if line.startswith("difftest run"))
    words = main.replace("--cases 40", f"--cases {CASES}").replace("runs/first", str(out))
    status, summary = difftest(*shlex.split(words)[1:])
    assert status == 0, "the ledger knows the faults of these cases"
    assert summary["cases"] == CASES
    assert not summary["trouble"]
    return out


def named(out: Path, words: str, backend: str) -> str:
    matches = [
        f.fingerprint
        for f in Corpus(out / "corpus").findings()
        if words in f.divergence.detail and f.divergence.backend == backend
    ]
    assert len(matches) == 1, f"{words!r} must be one finding, however many cases hit it: {matches}"
    return matches[0]


def test_the_two_dtensor_faults_are_two_findings_blamed_on_xla(first: Path) -> None:
    corpus = Corpus(first / "corpus")
    functional = corpus.finding(named(first, FUNCTIONAL_ASSERT, "xla_dtensor"))
    coordinate = corpus.finding(named(first, MISSING_COORDINATE, "xla_tp"))
    assert functional.fingerprint != coordinate.fingerprint
    assert functional.blame in {"xla fault", "xla backend fault"}  # the longer one has more runs
    assert coordinate.blame.startswith("xla ")
    assert functional.hits > 1
    assert len(functional.paths) > 1
    for finding in corpus.findings():
        assert DECIDED_BY not in finding.evidence, "the ledger's entries say it: these are all known"


def test_no_numeric_finding_is_only_rounding(first: Path) -> None:
    """Rounding that slipped through would be near the threshold.

    The least of these faults is RMS norm's forgotten epsilon, at 30 times the rounding noise.
    """
    numeric = {
        f.fingerprint: f.divergence.ratio
        for f in Corpus(first / "corpus").findings()
        if f.divergence.ratio is not None
    }
    assert numeric
    assert all(ratio > 2 * THRESHOLD for ratio in numeric.values()), numeric


def test_every_path_and_backend_is_exercised(first: Path) -> None:
    table = pd.read_parquet(first / "table.parquet")
    assert set(table.path) == set(ALONE)
    of_other_paths = {"torch_cp", "torch_cp_gathered", "torch_experts", "torch_pipeline"}
    assert set(table.backend) == {ORACLE, *candidates()} - of_other_paths
    assert set(table.world_size) <= set(range(2, 9))
    assert (table.verdict == "agree").sum() > 100


def test_replaying_a_finding_reproduces_it(first: Path) -> None:
    fingerprint = named(first, MISSING_COORDINATE, "xla_tp")
    with without_ray():
        status, summary = answered("replay", first / "corpus" / fingerprint)
    assert status == 1
    assert summary["reproduced"] == 1


def test_the_page_is_written_again_and_the_documented_query_runs(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first / "report.html").unlink()
    assert difftest("report", str(first), "--format", "html")[0] == 0
    assert (first / "report.html").is_file()
    monkeypatch.chdir(first.parent.parent)
    (query,) = blocks(ROOT / "docs" / "table.md", "python")
    exec(query, {})  # noqa: S102  the documentation's own three lines


def test_the_same_command_again_runs_nothing_and_has_the_same_findings(first: Path) -> None:
    """Its status could only be another one if the day (UTC) ended in between."""
    status, summary = difftest("run", "--seed", "0", "--cases", "4", "--out", str(first))
    assert (status, summary["cases"], summary["resumed"]) == (0, 0, CASES)
    assert set(summary["known"]) == set(Corpus(first / "corpus").fingerprints())
    assert summary["new"] == [], "new means unknown"


def test_another_campaign_reports_nothing_as_new(first: Path) -> None:
    """The same cases, but none run twice, so that the campaign is another one."""
    again = ("--seed", "0", "--cases", "2", "--twice-every", "0", "--backends", "xla_dtensor")
    with without_ray():
        status, summary = answered("run", *again, "--out", first)
    assert (status, summary["cases"], summary["resumed"]) == (0, 2, 0)
    assert summary["new"] == []
    assert summary["known"]
