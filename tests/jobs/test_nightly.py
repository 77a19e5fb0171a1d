"""Nightly runs on fake backends: replays, new findings, the exit status, and the files a scheduler reads."""

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner
from machines import (
    CASES_A_NIGHT,
    FIRST_NIGHT,
    FakeCluster,
    Machine,
    a_campaign,
    never,
    nightly_run,
    sharded,
    sharded_after_the_first,
)

from difftest import cli
from difftest.campaign.campaign import TRIES, Campaign
from difftest.cases.case import Case
from difftest.commands import nightly
from difftest.findings.ledger import Ledger, read_ledger
from difftest.ground import plugins
from difftest.ground.errors import NoTimeError, UsageError
from difftest.jobs.ask import request
from difftest.jobs.campaign import generated_cases
from difftest.jobs.filing.chain import DraftChain, HaltError
from difftest.jobs.night import night
from difftest.jobs.night.new_drafts import file_findings
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus

WRONG_A_NIGHT = CASES_A_NIGHT - 1
"""The first case of a night is right, because a backend must agree once."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(nightly, "campaign_on_cluster", cluster.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", cluster.cases)
    return cluster


def summary_of(out: Path, *words: str, date: str = FIRST_NIGHT) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(nightly_run(out, "--json", *words, date=date).stdout)
    return result


def junit(out: Path) -> Counter[str]:
    """Count the tests of each kind, and check the counts that the file declares."""
    root = ET.parse(out / "junit.xml").getroot()  # noqa: S314  we wrote it
    counts = Counter(child.tag for case in root.iter("testcase") for child in case)
    for name, tag in (("failures", "failure"), ("skipped", "skipped")):
        assert int(root.get(name, "")) == counts[tag] == sum(int(suite.get(name, "")) for suite in root)
    assert int(root.get("tests", "")) == len(list(root.iter("testcase")))
    return counts


@pytest.mark.long
def test_a_night_runs_new_cases_and_fails_for_a_new_finding(cluster: FakeCluster, tmp_path: Path) -> None:
    done = nightly_run(tmp_path)
    assert (done.exception, done.return_value) == (None, 1)
    assert done.stdout.splitlines()[0] == "seed 20261121"
    assert "1 finding" in done.stdout
    assert "ran 0 earlier findings again: none" in done.stdout
    assert junit(tmp_path)["failure"] == 1
    assert {"summary.md", "summary.json", "junit.xml", "table.parquet"} < {
        file.name for file in tmp_path.iterdir()
    }
    assert (tmp_path / "summary.md").stat().st_size < 2**20
    assert "seed20261121-" in (tmp_path / "summary.md").read_text()
    (finding,) = Corpus(tmp_path / "corpus").findings()
    assert (finding.status, finding.returned) == ("REPRODUCED", (3, 3)), "a new finding is run again"
    assert cluster.machine.requests


@pytest.mark.long
def test_the_next_night_replays_the_finding_and_passes(cluster: FakeCluster, tmp_path: Path) -> None:
    nightly_run(tmp_path)
    next_night = summary_of(tmp_path, date="2026-11-22")
    (finding,) = Corpus(tmp_path / "corpus").findings()
    assert next_night["replayed"] == {finding.fingerprint: "REPRODUCED"}
    assert (next_night["new"], next_night["known"], next_night["seed"]) == (
        [],
        [finding.fingerprint],
        20261122,
    )
    assert finding.hits == 2 * WRONG_A_NIGHT
    assert junit(tmp_path)["skipped"] == 1
    assert junit(tmp_path)["failure"] == 0
    cluster.machine.wrong = {"spmd": never}
    assert summary_of(tmp_path, date="2026-11-23")["replayed"] == {finding.fingerprint: "FIXED"}
    assert nightly_run(tmp_path, date="2026-11-24").return_value == 0


@pytest.mark.long
def test_a_night_takes_unknown_new_findings_to_drafts_once(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(DraftChain, "advance", lambda _self, folder: folders.append(folder))
    first = summary_of(tmp_path)
    (finding,) = Corpus(tmp_path / "corpus").findings()
    assert first["filed"] == {finding.fingerprint: "drafted"}
    assert folders == [tmp_path / "corpus" / finding.fingerprint]
    assert summary_of(tmp_path, date="2026-11-22")["filed"] == {}


@pytest.mark.long
def test_a_stage_that_cannot_go_on_does_not_end_the_night(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halt(_self: DraftChain, _folder: Path) -> None:
        msg = "reproducer: the script does not show the fault\nits output"
        raise HaltError(msg)

    monkeypatch.setattr(DraftChain, "advance", halt)
    done = nightly_run(tmp_path)
    assert done.return_value == 1
    assert "reproducer: the script does not show the fault\n" in done.stdout
    campaign = a_campaign(tmp_path / "corpus", cluster.machine)
    found = list(campaign.corpus.findings())
    assert file_findings(campaign, Ledger(), found, 0.0, quiet=True) == {}, "the time is up"


@pytest.mark.long
def test_repeating_a_night_resumes_it(cluster: FakeCluster, tmp_path: Path) -> None:
    nightly_run(tmp_path)
    again = summary_of(tmp_path)
    assert (again["cases"], again["resumed"], len(again["new"]), again["known"]) == (0, CASES_A_NIGHT, 1, [])
    assert len({o.index for o in Corpus(tmp_path / "corpus").observations()}) == CASES_A_NIGHT
    assert next(Corpus(tmp_path / "corpus").findings()).hits == WRONG_A_NIGHT
    assert cluster.machine.requests


@pytest.mark.long
def test_the_next_night_reports_the_findings_of_a_killed_night(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.killed = True
    assert nightly_run(tmp_path).return_value is None
    cluster.killed = False
    assert len(summary_of(tmp_path, date="2026-11-22")["new"]) == 1
    assert summary_of(tmp_path, date="2026-11-23")["new"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("fail_on", "first", "second"), [("new", 1, 0), ("any", 1, 1), ("infra", 0, 0), ("never", 0, 0)]
)
def test_fail_on_decides_which_nights_fail(
    cluster: FakeCluster, tmp_path: Path, fail_on: str, first: int, second: int
) -> None:
    assert nightly_run(tmp_path, "--fail-on", fail_on).return_value == first
    assert nightly_run(tmp_path, "--fail-on", fail_on, date="2026-11-22").return_value == second
    assert cluster.machine.requests


@pytest.mark.long
def test_a_finding_that_cannot_be_replayed_is_an_infrastructure_failure(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    nightly_run(tmp_path)
    cluster.machine.spoiled = {"spmd": TRIES}  # all attempts of the replay
    done = nightly_run(tmp_path, "--fail-on", "infra", "--json", date="2026-11-22")
    assert done.return_value == 1
    assert (json.loads(done.stdout)["trouble"], list(json.loads(done.stdout)["replayed"].values())) == (
        ["a node was lost"],
        ["ERROR"],
    )


@pytest.mark.long
def test_replays_leave_half_of_the_budget_for_new_cases(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.machine = Machine(spmd=sharded, ddp=lambda case: sharded(case) and case.seed % 2 == 0)
    nightly_run(tmp_path)
    monkeypatch.setattr(night, "RECHECK_SHARE", 0.0)
    done = summary_of(tmp_path, date="2026-11-22")
    control = 1  # spmd never agrees
    assert (len(done["replayed"]), done["left"], done["cases"]) == (1, 1, CASES_A_NIGHT + control)
    first = set(done["replayed"])
    corpus = Corpus(tmp_path / "corpus")
    (other,) = set(corpus.fingerprints()) - first
    corpus.amend(other, checked="2026-01-01T00:00:00+00:00")
    assert set(summary_of(tmp_path, date="2026-11-23")["replayed"]) == {other}, (
        "findings that were not reached come first in the next night"
    )


@pytest.mark.long
def test_a_finding_of_a_backend_that_is_not_requested_is_not_replayed(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    nightly_run(tmp_path)
    corpus = Corpus(tmp_path / "corpus")
    (finding,) = corpus.findings()
    divergence = msgspec.structs.replace(finding.divergence, backend="gone")
    corpus.amend(finding.fingerprint, divergence=divergence)
    assert summary_of(tmp_path, date="2026-11-22")["replayed"] == {}
    assert cluster.machine.requests


@pytest.mark.slow
def test_two_concurrent_nights_report_a_finding_as_new_once(cluster: FakeCluster, tmp_path: Path) -> None:
    results: list[list[str]] = []

    def one(date: str) -> None:
        options = {"out": tmp_path, "date": date}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(options["out"]), date],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout)["new"])

    threads = [threading.Thread(target=one, args=(f"2026-11-{day}",)) for day in (21, 22)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (finding,) = Corpus(tmp_path / "corpus").findings()
    assert sorted(results) == [[], [finding.fingerprint]]
    assert finding.hits == 2 * WRONG_A_NIGHT
    assert json.loads((tmp_path / "summary.json").read_text())["findings"][0]["hits"] == finding.hits
    assert cluster


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
from pathlib import Path
from machines import FakeCluster, nightly_run
from difftest.cases.case import Case
from difftest.commands import nightly
from difftest.jobs.campaign import generated_cases
cluster = FakeCluster()
nightly.campaign_on_cluster, generated_cases.generated_cases = cluster.campaign, cluster.cases
print(nightly_run(Path(sys.argv[1]), "--json", date=sys.argv[2]).stdout)
"""


@pytest.mark.long
def test_a_second_run_of_the_same_night_at_the_same_time_is_refused(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*words: Any) -> AbstractContextManager[Campaign]:  # noqa: ANN401
        with pytest.raises(UsageError, match="is being run on"):
            raise nightly_run(tmp_path).exception or AssertionError
        return cluster.campaign(*words)

    monkeypatch.setattr(nightly, "campaign_on_cluster", meanwhile)
    assert nightly_run(tmp_path).return_value == 1


@pytest.mark.long
def test_a_finding_in_the_ledger_fails_no_night(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "known.toml"
    ledger.write_text(
        '[[known]]\nfingerprint = "spmd-*"\nupstream = "an <issue> & more"\nreason = "it is"\n'
        "expires = 2099-01-01\n"
    )
    assert read_ledger(ledger).entries
    assert nightly_run(tmp_path / "out", "--known", str(ledger)).return_value == 0
    assert junit(tmp_path / "out") == {"skipped": 1, "system-out": 4}
    assert "known upstream: an <issue> & more" in "".join(
        case.get("message", "")
        for case in ET.parse(tmp_path / "out" / "junit.xml").getroot().iter("skipped")  # noqa: S314
    )
    assert cluster
    del monkeypatch


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_the_next_night_reads_the_files_of_a_night_from_storage(
    cluster: FakeCluster, tmp_path: Path, scheme: str
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, which torch brings")
    out: Any = f"{scheme}://{tmp_path}/kept"
    first, second = summary_of(out), summary_of(out, date="2026-11-22")
    assert (len(first["new"]), second["new"], second["known"]) == (1, [], first["new"])
    assert set(second["replayed"]) == set(first["new"])
    files, root = fsspec.core.url_to_fs(out)
    kept = {name.removeprefix(root).lstrip("/") for name in files.find(root)}
    assert {"junit.xml", "summary.md", "table.parquet", f"corpus/{first['new'][0]}/finding.json"} <= kept
    assert not any(name.rpartition("/")[2].startswith(".") for name in kept)
    assert cluster


@pytest.mark.long
def test_runs_are_copied_to_storage_during_the_night(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec, which torch brings")
    monkeypatch.setattr("difftest.jobs.campaign.storage.EVERY_SECONDS", 0.01)
    there = []

    @contextmanager
    def slow(*words: Any) -> Iterator[Campaign]:  # noqa: ANN401
        with cluster.campaign(*words) as campaign:
            yield campaign
        while not list(tmp_path.glob("kept/corpus/observations/*.jsonl")):
            time.sleep(0.01)
        there.append(len(list(Corpus(tmp_path / "kept" / "corpus").observations())))

    monkeypatch.setattr(nightly, "campaign_on_cluster", slow)
    out: Any = f"file://{tmp_path}/kept"
    assert nightly_run(out).return_value == 1
    assert there


def test_an_unusable_storage_address_is_a_usage_error(cluster: FakeCluster) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec, which torch brings")
    with pytest.raises(UsageError, match=r"--out is 'nowhere://x/y', which cannot be used here: "):
        raise nightly_run(Path("x"), "--out", "nowhere://x/y").exception or AssertionError
    assert not cluster.machine.requests


def test_without_a_date_the_seed_is_that_of_today(cluster: FakeCluster, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.difftest, ["nightly", "--out", str(tmp_path)], standalone_mode=False)
    assert re.fullmatch(r"seed 20\d{6}", done.stdout.splitlines()[0])
    assert cluster


def test_a_night_has_cases_of_every_path(cluster: FakeCluster, tmp_path: Path) -> None:
    nightly_run(tmp_path / "all")
    nightly_run(tmp_path / "one", "--paths", "blocks")
    (everything,), (blocks,) = (
        tmp_path.glob(f"{name}/corpus/observations/*.json") for name in ("all", "one")
    )
    assert tuple(json.loads(everything.read_text())["paths"]) == plugins.names("generators.paths")
    assert json.loads(blocks.read_text())["paths"] == ["blocks"]
    assert cluster


@pytest.mark.parametrize("date", ["2026-13-01", "yesterday", ""])
def test_an_invalid_date_is_refused(tmp_path: Path, date: str) -> None:
    assert "does not match the format" in str(nightly_run(tmp_path, date=date).exception)


@pytest.mark.parametrize("command", [("run",), ("nightly",)])
def test_an_output_folder_that_ray_removes_after_its_job_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    copy = tmp_path / "session_1" / "runtime_resources" / "working_dir_files" / "_ray_pkg_0"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    for out in ("runs/x", str(copy / "runs"), "../elsewhere"):
        done = CliRunner().invoke(cli.difftest, [*command, "--out", out])
        assert done.exit_code == 2
        assert (
            "is inside this Ray job's copy of its working directory, which Ray removes after the job"
            in done.stderr
        )


@pytest.mark.long
def test_a_known_new_finding_is_not_repeated(cluster: FakeCluster, tmp_path: Path) -> None:
    nightly_run(tmp_path)
    (finding,) = Corpus(tmp_path / "corpus").findings()
    assert finding.returned == (3, 3)
    known = tmp_path / "known.toml"
    known.write_text(
        '[[known]]\nfingerprint = "spmd-*"\nupstream = "an issue"\nreason = "it is"\nexpires = 2099-01-01\n'
    )
    other = tmp_path / "other"
    assert summary_of(other, "--known", str(known))["triaged"] == {}
    (untouched,) = Corpus(other / "corpus").findings()
    assert (untouched.status, untouched.returned) == ("", (0, 0))


@pytest.mark.long
def test_what_a_night_has_no_time_for_is_said_and_the_same_command_continues_it(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = nightly_run(tmp_path / "whole")
    (wanted,) = Corpus(tmp_path / "whole" / "corpus").findings()
    machine = cluster.machine
    for runs in (2, 4, 9, 14, 17):  # amid the first case, its evidence, later cases, and triage
        out = tmp_path / str(runs)
        monkeypatch.setattr(cluster, "machine", Ending(runs))
        first = nightly_run(out)
        assert "unfinished: " in first.stdout, runs
        assert "the same command continues with them" in first.stdout
        assert (out / "summary.json").is_file()
        monkeypatch.setattr(cluster, "machine", machine)
        again = nightly_run(out)
        assert "unfinished: " not in again.stdout
        assert again.return_value == whole.return_value == 1
        (now,) = Corpus(out / "corpus").findings()
        assert (now.hits, now.stable, now.blame, now.evidence) == (
            wanted.hits,
            wanted.stable,
            wanted.blame,
            wanted.evidence,
        )
        assert (now.status, now.returned) == ("REPRODUCED", (3, 3))


class Ending(Machine):
    """A machine with the usual fault whose time ends before the run with the number `left`."""

    def __init__(self, left: int) -> None:
        super().__init__(spmd=sharded_after_the_first)
        self.left = left

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome of the run; raises NoTimeError where none is left."""
        self.left -= 1
        if self.left < 0:
            msg = "the time is over"
            raise NoTimeError(msg)
        return super().execute(case, backend, options)


@pytest.mark.long
def test_a_night_whose_budget_is_spent_begins_nothing_and_says_so(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly_run(tmp_path)
    before = sum(cluster.machine.requests.values())
    monkeypatch.setattr(request.CampaignRequest, "end", 0.0)
    spent = nightly_run(tmp_path, date="2026-11-22")
    assert sum(cluster.machine.requests.values()) == before
    assert "ran 0 earlier findings again: none; 1 left for the next night" in spent.stdout
    assert "0 cases, 0 runs" in spent.stdout
