"""A green result means that enough was compared: exit statuses of campaigns on fake backends."""

import json
import shutil
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from machines import CASES_A_NIGHT, FakeCluster, Machine, backend, never, nightly_run
from machines import sharded_after_the_first as sharded
from sample_findings import an_observation
from samples import a_case, a_failure

from difftest import cli
from difftest.cases.case import Case
from difftest.commands import nightly
from difftest.ground.errors import InfrastructureError, UnsupportedError, UsageError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign import conclusion, generated_cases, run
from difftest.jobs.campaign.night_before import Before, absent
from difftest.jobs.campaign.tally import Tally
from difftest.judge.outcome import Outcome
from difftest.records import announced
from difftest.records.columns import Columns
from difftest.records.corpus import Corpus
from reports.report import build

XLA = CASES_A_NIGHT
"""The comparisons of the XLA side in a campaign of the fake cluster."""


class Broken(Machine):
    """A machine on which every run of some backends raises an error, while `broken`."""

    def __init__(
        self, error: Callable[[str], Exception], *names: str, **wrong: Callable[[Case], bool]
    ) -> None:
        super().__init__(**wrong)
        self._error, self._names, self.broken = error, names, True

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome, or the error."""
        if self.broken and backend in self._names:
            msg = f"rank 0 of case {case.id} was killed by SIGKILL"
            raise self._error(msg)
        return super().execute(case, backend, options)


class Blind(Machine):
    """A machine whose oracle always fails."""

    def answer(self, case: Case, backend: str) -> Outcome:
        """A failure for the oracle."""
        return a_failure(message="no memory") if backend == "oracle" else super().answer(case, backend)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    for command in (run, nightly):
        monkeypatch.setattr(command, "campaign_on_cluster", cluster.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", cluster.cases)
    monkeypatch.setattr(conclusion, "_write_reports", lambda *_: [])  # they take most of the time
    return cluster


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Moves the clock of the commands by a number of days."""
    day = date(2026, 11, 21)

    def move(days: int) -> None:
        for command in (run, nightly):
            monkeypatch.setattr(command, "utc_today", lambda: day + timedelta(days=days))
        monkeypatch.setattr("difftest.jobs.campaign.conclusion.utc_today", lambda: day + timedelta(days=days))

    move(0)
    return move


def difftest(*words: object) -> Result:
    return CliRunner().invoke(cli.difftest, [str(word) for word in words], standalone_mode=False)


def campaign(out: Path, *words: object) -> Result:
    return difftest("run", "--cases", CASES_A_NIGHT, "--out", out, *words)


def status(done: Result) -> int:
    """The exit status that `difftest.cli.main` makes of a command's end."""
    if isinstance(done.exception, InfrastructureError):
        return InfrastructureError.status
    if isinstance(done.exception, UsageError):
        return UsageError.status
    assert done.exception is None, done.exception
    return int(done.return_value or 0)


def test_a_campaign_that_compared_everything_is_green_and_says_how_much(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine.wrong = {}
    done = campaign(tmp_path)
    assert status(done) == 0
    assert f"  torch: {XLA} of {XLA} comparisons completed\n" in done.stdout
    assert f"  xla:   {XLA} of {XLA} comparisons completed\n" in done.stdout
    result = json.loads(campaign(tmp_path, "--json").stdout)
    expected = {"requested": XLA, "completed": XLA, "agreed": XLA, **{ended: {} for ended in ENDINGS}}
    of_backend = {**expected, "paths": {"tensor_parallel": expected}}
    assert result["comparisons"]["xla"] == {**expected, "backends": {"spmd": of_backend}}
    assert result["incomplete"] == []


ENDINGS = ("inconclusive", "lost", "refused", "unsupported")


def test_when_every_run_of_a_side_is_lost_the_status_is_3_and_the_side_is_named(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    machine = cluster.machine = Broken(InfrastructureError, "spmd")
    done = campaign(tmp_path)
    assert status(done) == 3
    assert str(done.exception).startswith(
        f"side xla: 0 of {XLA} comparisons were made, none with a result, --least-compared is 0.95; "
        f"spmd: {XLA} lost (rank # of case ... was killed by SIGKILL)"
    )
    assert "side torch" not in str(done.exception)
    assert f"  xla:   0 of {XLA} comparisons completed, {XLA} lost (rank # of case" in done.stdout
    again = campaign(tmp_path, "--json")
    assert status(again) == 3, "the same command gives the same status"
    assert json.loads(again.stdout)["comparisons"]["xla"]["lost"] == {
        "rank # of case ... was killed by SIGKILL": XLA
    }
    machine.broken = False
    assert status(campaign(tmp_path)) == 0, "lost cases run again"


def test_when_the_oracle_fails_in_every_case_the_status_is_3_and_standard_output_says_why(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine = Blind()
    done = campaign(tmp_path)
    assert status(done) == 3
    for side in ("torch:", "xla:  "):
        line = f"  {side} 0 of {XLA} comparisons completed, {XLA} inconclusive (the oracle failed)"
        assert line in done.stdout
    assert "side torch: " in str(done.exception)
    assert "side xla: " in str(done.exception)


def test_a_backend_that_its_workers_refuse_is_counted_and_ends_in_status_3(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine = Broken(UnsupportedError, "spmd")
    done = campaign(tmp_path, "--json")
    assert status(done) == 3
    result = json.loads(done.stdout)
    assert sum(result["comparisons"]["xla"]["refused"].values()) == XLA
    assert result["trouble"] == []
    assert "spmd: 3 refused (" in result["incomplete"][0]


def with_backends(cluster: FakeCluster, **backends: SimpleNamespace) -> None:
    cluster.backends = backends


def test_a_side_that_supports_no_case_ends_in_status_3(cluster: FakeCluster, tmp_path: Path) -> None:
    with_backends(cluster, ddp=backend("torch"), spmd=backend("xla", "it has no mesh of 2 ranks"))
    done = campaign(tmp_path)
    assert status(done) == 3
    assert "side xla: nothing was compared, no backend supports any of them: 3 unsupported (it has no" in str(
        done.exception
    )
    assert status(campaign(tmp_path, "--least-compared", 0)) == 0


def test_when_no_backend_supports_any_case_it_is_wrong_usage(cluster: FakeCluster, tmp_path: Path) -> None:
    with_backends(cluster, ddp=backend("torch", "it cannot"), spmd=backend("xla", "it cannot"))
    for _ in range(2):
        done = campaign(tmp_path)
        assert status(done) == 2
        assert "no backend supports any of the 3 cases" in str(done.exception)


def test_unsupported_comparisons_are_shown_apart_and_lower_no_share(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with_backends(cluster, ddp=backend("torch"), fsdp=backend("torch", "it cannot"), spmd=backend("xla"))
    cluster.machine.wrong = {}
    done = campaign(tmp_path)
    assert status(done) == 0
    assert "  torch: 3 of 3 comparisons completed; 3 more not supported\n" in done.stdout


@pytest.mark.parametrize(("limit", "expected"), [("0.95", 3), ("0.5", 3), ("0", 0)])
def test_the_threshold_of_compared_ones_is_an_option(
    cluster: FakeCluster, tmp_path: Path, limit: str, expected: int
) -> None:
    with_backends(cluster, ddp=backend("torch"), spmd=backend("xla"), gone=backend("xla"))
    cluster.machine = Broken(InfrastructureError, "gone")
    done = campaign(tmp_path, "--least-compared", limit)
    assert status(done) == expected
    assert "    gone: 0 of 3 comparisons completed, 3 lost" in done.stdout


@pytest.mark.parametrize(("limit", "expected"), [("0.2", 3), ("0.4", 0)])
def test_the_limit_of_inconclusive_ones_is_an_option(
    cluster: FakeCluster, tmp_path: Path, limit: str, expected: int
) -> None:
    class Doubtful(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            doubtful = case.seed % 100 == 0 and backend == "oracle"
            return a_failure() if doubtful else super().answer(case, backend)

    cluster.machine = Doubtful()
    done = campaign(tmp_path, "--most-inconclusive", limit)
    assert status(done) == expected
    if expected:
        assert "side xla: 1 of 3 comparisons are inconclusive, --most-inconclusive is 0.2" in str(
            done.exception
        )


def test_too_little_compared_takes_precedence_over_findings_which_stay_new(
    cluster: FakeCluster, tmp_path: Path, today: Callable[[int], None]
) -> None:
    machine = cluster.machine = Broken(InfrastructureError, "spmd", ddp=sharded)
    done = campaign(tmp_path)
    assert status(done) == 3
    assert "1 finding" in done.stdout
    today(5)
    machine.broken = False
    assert status(campaign(tmp_path)) == 1, "nothing has announced it before"


def test_the_same_command_again_has_the_same_status_until_the_next_day(
    cluster: FakeCluster, tmp_path: Path, today: Callable[[int], None]
) -> None:
    assert [status(campaign(tmp_path)) for _ in range(3)] == [1, 1, 1]
    assert cluster.machine.requests
    assert status(campaign(tmp_path, "--seed", "1")) == 0, "another campaign knows it"
    today(1)
    assert status(campaign(tmp_path)) == 0
    today(0)
    assert status(campaign(tmp_path)) == 0, "what is known stays known"


def test_setting_the_clock_back_makes_no_new_finding_known(
    cluster: FakeCluster, tmp_path: Path, today: Callable[[int], None]
) -> None:
    for days in (0, -1, -400, 0):
        today(days)
        done = campaign(tmp_path, "--json")
        assert status(done) == 1
        assert len(json.loads(done.stdout)["new"]) == 1
        assert build(tmp_path).new == set(Corpus(tmp_path / "corpus").fingerprints()), "nor in reports"
    today(1)
    assert status(campaign(tmp_path)) == 0
    assert cluster.machine.requests


def test_an_acknowledged_finding_is_known(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.machine.wrong = {"spmd": sharded, "ddp": sharded}
    assert status(campaign(tmp_path)) == 1
    first, second = Corpus(tmp_path / "corpus").fingerprints()
    done = difftest("triage", tmp_path, first, "--acknowledge")
    assert done.stdout == f"1 finding is no longer new\n  {first}\n"
    assert json.loads(campaign(tmp_path, "--json").stdout)["new"] == [second]
    assert json.loads(difftest("triage", tmp_path, "--acknowledge", "--json").stdout) == {
        "acknowledged": [second]
    }
    assert status(campaign(tmp_path)) == 0


def test_a_finding_whose_ledger_entry_is_gone_stays_new_too(cluster: FakeCluster, tmp_path: Path) -> None:
    ledger = tmp_path / "known.toml"
    ledger.write_text(
        '[[known]]\nfingerprint = "spmd-*"\nupstream = "an issue"\nreason = "it is"\nexpires = 2099-01-01\n'
    )
    assert status(campaign(tmp_path, "--known", ledger)) == 0
    announced.acknowledge(corpus := Corpus(tmp_path / "corpus"), corpus.fingerprints())
    assert [status(campaign(tmp_path)) for _ in range(2)] == [1, 1]
    assert cluster.machine.requests


def test_progress_calls_findings_of_the_ledger_known(cluster: FakeCluster, tmp_path: Path) -> None:
    ledger = tmp_path / "known.toml"
    ledger.write_text(
        '[[known]]\nfingerprint = "spmd-*"\nupstream = "an issue"\nreason = "it is"\nexpires = 2099-01-01\n'
    )
    cluster.machine.wrong = {"spmd": sharded, "ddp": sharded}
    shown = campaign(tmp_path / "out", "--known", ledger).stderr
    lines = [line.partition("  ") for line in shown.splitlines() if line.startswith(("known ", "new "))]
    by_word = {word.strip(): rest for word, _, rest in lines}
    assert by_word.keys() == {"known", "new"}
    assert "it is" in by_word["known"]
    assert "ddp: wrong gradient of 0.weight" in by_word["new"]


@pytest.mark.parametrize(
    ("words", "lost", "expected"),
    [("new,infra", 0, 1), ("infra", 0, 0), ("infra", 1, 1), ("any,infra", 0, 1), ("never", 1, 0)],
)
def test_fail_on_takes_several_words(
    cluster: FakeCluster, tmp_path: Path, words: str, lost: int, expected: int
) -> None:
    cluster.machine.wrong = {"ddp": sharded}
    cluster.machine.spoiled = {"spmd": 3 * lost}
    done = campaign(tmp_path, "--fail-on", words, "--least-compared", "0")
    assert status(done) == expected


@pytest.mark.parametrize("words", ["never,new", "new,", "all"])
def test_never_stands_alone_and_other_words_are_refused(tmp_path: Path, words: str) -> None:
    assert isinstance(difftest("run", "--out", tmp_path, "--fail-on", words).exception, click.BadParameter)


def test_a_night_that_compared_nothing_ends_in_status_3(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.machine = Broken(InfrastructureError, "spmd", ddp=never)
    assert status(nightly_run(tmp_path)) == 3


def test_a_night_reports_a_backend_that_was_compared_the_night_before_and_is_missing(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine.wrong = {}
    backends = {"ddp": backend("torch"), "spmd": backend("xla"), "fsdp": backend("xla")}
    with_backends(cluster, **backends)
    assert status(nightly_run(tmp_path, date="2026-11-20")) == 0
    cluster.machine = Broken(UnsupportedError, "fsdp")
    words = ("--least-compared", "0")
    done = nightly_run(tmp_path, *words, date="2026-11-21")
    assert status(done) == 3
    missing = "backend fsdp: compared 3 times on 20261120, and not once now; 3 refused (rank # of case"
    assert f"  missing {missing}" in done.stdout
    assert missing in str(done.exception)
    again = nightly_run(tmp_path, *words, "--json", date="2026-11-21")
    assert (status(again), len(json.loads(again.stdout)["absent"])) == (3, 1), (
        "the same night, the same status"
    )
    assert status(nightly_run(tmp_path, *words, date="2026-11-22")) == 0, (
        "it was missing the night before too"
    )


def test_a_night_misses_a_path_only_where_that_is_no_accident(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.machine.wrong = {}
    assert status(nightly_run(tmp_path, date="2026-11-20")) == 0
    numbers = {"2026-11-21": 3, "2026-11-22": 6}
    for night, cases in numbers.items():
        draw = [(index, a_case(seed=index)) for index in range(cases)]
        monkeypatch.setattr(generated_cases, "generated_cases", lambda *_, draw=draw: (one for one in draw))
        nights = tmp_path / night
        shutil.copytree(tmp_path / "corpus", nights / "corpus")
        absent = json.loads(nightly_run(nights, "--json", date=night).stdout)["absent"]
        expected = cases == 6
        assert ["tensor_parallel: compared 6 times on 20261120" in line for line in absent] == [
            True
        ] * expected


def test_what_a_night_was_told_to_leave_out_is_not_missed() -> None:
    before, now = Before(seed=20261120, cases=40), Tally(cases=40)
    of_torch = [an_observation(index) for index in range(40)]
    before.comparisons.add(
        Columns.of([*of_torch, *(an_observation(index, "xla_spmd") for index in range(40))])
    )
    now.comparisons.add(Columns.of(of_torch))
    for chosen, number in ((), 1), (("torch_ddp",), 0):
        request = a_request(backends=chosen)
        assert len(absent(before, now, request)) == number


def a_request(**changes: Any) -> CampaignRequest:  # noqa: ANN401  fields of the request
    fields: dict[str, Any] = {
        "out": Path("runs"),
        "ledger": Path("ledger.toml"),
        "fail_on": ("new",),
        "as_json": False,
    }
    return CampaignRequest(**fields, seed=20261121, max_world_size=2, twice_every=0, **changes)
