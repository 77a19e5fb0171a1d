"""A command that is interrupted stops its runs, writes its reports, and is continued by the same command."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from machines import CASES_A_NIGHT, FIRST_NIGHT, FakeCluster, Machine, nightly_run, sharded_after_the_first

from difftest import cli
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.commands import nightly
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign import generated_cases, run
from difftest.jobs.campaign.generated_cases import is_complete
from difftest.jobs.campaign.interruption import STATUS, interruptible
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.resume import CampaignRecord

TWO_SIGNALS = """
import os, signal, time
from difftest.jobs.campaign.generated_cases import is_complete
from difftest.jobs.campaign.interruption import interruptible
with interruptible(lambda message, status: print(message, status, flush=True)):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    print("goes on", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    print("never")
"""


class Ending(Machine):
    """A machine whose connection ends before the run with this number, as if Ray was gone or by Ctrl-C."""

    def __init__(self, runs: int, status: int) -> None:
        super().__init__(spmd=sharded_after_the_first)
        self.left, self._status = runs, status

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome of the run; raises StoppedError when none is left."""
        self.left -= 1
        if self.left < 0:
            msg = "Ray is gone"
            raise StoppedError(msg, status=self._status)
        return super().execute(case, backend, options)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    for command in (run, nightly):
        monkeypatch.setattr(command, "campaign_on_cluster", cluster.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", cluster.cases)
    return cluster


def run_again(out: Path) -> Result:
    words = ["run", "--seed", "20261121", "--cases", str(CASES_A_NIGHT), "--out", str(out)]
    return CliRunner().invoke(cli.difftest, words, standalone_mode=False)


def recorded_cases(out: Path) -> set[int]:
    return {observation.index for observation in Corpus(out / "corpus").observations()}


@pytest.mark.long
@pytest.mark.parametrize("status", [3, STATUS])
def test_a_stopped_run_writes_its_reports_and_the_same_command_continues(
    cluster: FakeCluster, tmp_path: Path, status: int
) -> None:
    cluster.machine = Ending(runs=6, status=status)
    stopped = run_again(tmp_path)
    assert isinstance(stopped.exception, StoppedError)
    assert stopped.exception.status == status
    assert "0 runs in" not in stopped.stdout
    assert re.search(r"unfinished: .*; the same command continues with them", stopped.stdout)
    assert (tmp_path / "summary.json").is_file()
    before = recorded_cases(tmp_path)
    assert len(before) < CASES_A_NIGHT
    assert not any(o.verdict == "lost" for o in Corpus(tmp_path / "corpus").observations())
    cluster.machine = Machine(spmd=sharded_after_the_first)
    done = run_again(tmp_path)
    assert (done.exception, recorded_cases(tmp_path)) == (None, set(range(CASES_A_NIGHT)))
    assert done.return_value == 1, "what the stopped run found is new until it was reported"


@pytest.mark.long
@pytest.mark.parametrize("runs", [0, 5])
def test_a_stopped_night_writes_its_reports(cluster: FakeCluster, tmp_path: Path, runs: int) -> None:
    nightly_run(tmp_path, date=FIRST_NIGHT)
    cluster.machine = Ending(runs, status=STATUS)
    (tmp_path / "junit.xml").unlink()
    stopped = nightly_run(tmp_path, date="2026-11-22")
    assert isinstance(stopped.exception, StoppedError)
    assert (tmp_path / "junit.xml").is_file()


@pytest.mark.long
def test_a_finished_campaign_is_reported_without_a_cluster(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def refuse(*_: object) -> Iterator[Campaign]:
        msg = "a finished campaign needs no cluster"
        raise AssertionError(msg)
        yield

    del cluster
    run_again(tmp_path)
    monkeypatch.setattr(run, "campaign_on_cluster", refuse)
    with pytest.raises(AssertionError, match="needs no cluster"):
        raise run_again(tmp_path).exception or ValueError
    monkeypatch.setattr(run, "is_complete", lambda *_: True)  # these cases are not those of the seed
    again = run_again(tmp_path)
    assert (again.exception, again.return_value) == (None, 1)
    assert f"after {CASES_A_NIGHT} cases recorded earlier: 1 finding" in again.stdout


def test_a_campaign_is_finished_when_all_of_its_cases_are_recorded_as_they_are_drawn_now(
    tmp_path: Path,
) -> None:
    request = CampaignRequest(
        out=tmp_path,
        ledger=tmp_path,
        fail_on=("new",),
        as_json=False,
        seed=5,
        cases=3,
        max_world_size=2,
        twice_every=0,
    )
    cases = [(index, case.id) for index, case in generated_cases.generated_cases(request, CampaignRecord())]
    assert is_complete(request, CampaignRecord(cases=set(cases)))
    assert not is_complete(request, CampaignRecord(cases=set(cases[:2])))
    assert not is_complete(request, CampaignRecord(cases={*cases[1:], (0, "another")}))
    assert not is_complete(replace(request, cases=4), CampaignRecord(cases=set(cases)))
    assert not is_complete(replace(request, cases=None, budget=9.0), CampaignRecord(cases=set(cases)))


def test_a_first_signal_ends_the_runs_and_a_second_one_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_SIGNALS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (STATUS, f"interrupted {STATUS}\ngoes on\n")
    assert "interrupt again to leave at once" in done.stderr


def test_signals_are_as_before_where_nothing_runs() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible(lambda *_: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    inside = list[object]()

    def elsewhere() -> None:
        with interruptible(lambda *_: None):
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert inside == [before]


@pytest.mark.long
@pytest.mark.parametrize("command", ["run", "nightly"])
def test_a_command_that_is_stopped_before_its_first_run_writes_its_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    @contextmanager
    def stopped(*_: object) -> Iterator[Campaign]:
        raise StoppedError("interrupted", status=STATUS)  # noqa: EM101  as the connection raises it
        yield

    for one in (run, nightly):
        monkeypatch.setattr(one, "campaign_on_cluster", stopped)
    done = run_again(tmp_path) if command == "run" else nightly_run(tmp_path)
    assert isinstance(done.exception, StoppedError)
    assert (tmp_path / "summary.json").is_file()
