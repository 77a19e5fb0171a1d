"""What `difftest doctor` checks and concludes, and how a long command shows that it works."""

import io
import re
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner
from sample_findings import BEGAN, FINDING, changed
from sample_programs import a_program, an_operator
from samples import a_case, a_failure

from difftest import cli
from difftest.campaign.campaign import BackendRun, Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.recording import Progress
from difftest.findings.ledger import Ledger
from difftest.jobs.campaign import progress
from difftest.jobs.installed import readiness
from difftest.jobs.installed.readiness import State
from difftest.jobs.screen import activity
from difftest.jobs.screen.activity import Working
from difftest.judge.comparator import Comparison
from difftest.judge.outcome import Outcome, Symptom
from difftest.records.corpus import Corpus

ENDLESS = float("inf")
PACKAGES: dict[str, str | None] = {"torch": "2.9.0", "ray": "2.60"}


def states(monkeypatch: pytest.MonkeyPatch, missing: dict[str, str] | None = None) -> dict[str, State]:
    """By name, what the checks of this machine came to."""
    monkeypatch.delenv("DIFFTEST_MEMORY", raising=False)
    return {check.name: check.state for check in readiness.checks(PACKAGES, missing or {}, Path())}


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is missing."""
    for name in ("RAY_AUTH_MODE", "RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/cc")
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: SimpleNamespace(free=2**36))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2**36, total=2**37))


def test_a_machine_with_everything_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(states(monkeypatch).values()) == {State.GOOD}
    assert readiness.verdict(readiness.checks(PACKAGES, {}, Path())) == "ready: both sides run here"


@pytest.mark.parametrize(
    ("missing", "verdict"),
    [
        ({"ray": "pip install x", "flax": "y"}, "not ready: ray is missing (pip install x)"),
        ({"numpy": ""}, "not ready: numpy is missing (pip install numpy)"),
        ({"torch_xla": "z"}, "ready, within limits: without torch_xla, the XLA side does not run (z)"),
        (
            {"flax": "y"},
            f"ready, within limits: without flax, {readiness.BRINGS['flax']} are not supported (y)",
        ),
        ({"something": "y"}, "ready: both sides run here"),
    ],
)
def test_missing_packages_decide_what_runs(missing: dict[str, str], verdict: str) -> None:
    assert readiness.verdict(readiness.checks(PACKAGES, missing, Path())) == verdict


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        ({"RAY_AUTH_MODE": "disabled"}, State.BAD),
        ({"RAY_AUTH_MODE": "token"}, State.GOOD),
        ({"RAY_ADDRESS": "head:6379"}, State.BAD),
        ({"RAY_ADDRESS": "head:6379", "RAY_AUTH_TOKEN": "a"}, State.GOOD),
        ({"RAY_ADDRESS": "head:6379", "RAY_AUTH_TOKEN_PATH": __file__}, State.GOOD),
    ],
)
def test_ray_needs_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], state: State
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert states(monkeypatch)["Ray's token"] is state


def test_a_small_machine_is_limited_and_a_full_disk_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2**30, total=2**31))
    results = readiness.checks(PACKAGES, {}, Path())
    verdict = readiness.verdict(results)
    assert verdict.startswith(
        "ready, within limits: without a C compiler (cc), crashes have no native frames; "
    )
    assert verdict.endswith("give --max-world-size 2")
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: SimpleNamespace(free=2**20))
    assert states(monkeypatch)["disk, results"] is State.BAD
    assert readiness.verdict(readiness.checks(PACKAGES, {}, Path())).startswith("not ready: 0.00 GiB free")


def test_doctor_ends_with_its_verdict() -> None:
    lines = CliRunner().invoke(cli.difftest, ["doctor"]).output.splitlines()
    assert lines[-1].startswith(("ready", "not ready"))
    assert [line for line in lines if line.startswith("  Ray's token ")]


def test_a_log_has_a_line_at_once_and_then_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(activity, "EVERY_SECONDS", 0.02)
    failure = a_failure()
    with Working("minimize") as shown:
        run, group = (
            shown.counted(lambda *_: failure),
            shown.counted_group(lambda runs, _: [failure] * len(runs)),
        )
        assert run(a_case(), "torch_ddp", {}) is failure
        assert group([(a_case(), "torch_ddp")] * 2, {}) == [failure] * 2
        shown.step()
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "minimize ..."
    assert lines[-1].startswith("minimize: ")
    assert lines[-1].endswith(" s, 4 runs done, 0 running")
    time.sleep(0.1)
    assert not capsys.readouterr().err, "it is silent once the command has ended"


def runs_slowly(*_: object) -> Outcome:
    time.sleep(0.2)
    return a_failure()


def test_a_campaign_s_log_has_lines_before_its_first_case_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    with progress.Meter(4, time.monotonic() + 60.0, ENDLESS, Ledger()) as meter:
        campaign = Campaign(name="one", backends={}, execute=runs_slowly, corpus=Corpus(tmp_path))
        meter.watched(campaign).execute(a_case(), "torch_ddp", {})
        first = capsys.readouterr().err.splitlines()
        time.sleep(0.1)
        waiting = capsys.readouterr().err.splitlines()[-1]
        meter.count(Progress(result=CaseResult(index=0, case=a_case())))
        time.sleep(0.2)
    left = r"0 cases of 4, 0 new findings, (59|60) s left"
    assert re.fullmatch(left + "; running: torch_ddp for 0 s", first[0])
    assert re.fullmatch(left, waiting)
    assert capsys.readouterr().err.splitlines()[-1].startswith("1 case of 4, ")
    time.sleep(0.1)
    assert not capsys.readouterr().err


def test_a_log_never_says_that_no_time_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    with progress.Meter(None, time.monotonic() - 1.0, time.monotonic() + 3600.0, Ledger()):
        time.sleep(0.2)
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r", no new cases: the last runs end within (3600|3599) s$", line)
    assert "left" not in line


def test_a_log_counts_the_runs_of_cases_that_have_ended_as_the_summary_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    ran = {name: a_backend_run(name) for name in ("oracle", "torch_ddp", "xla_spmd")}
    comparisons = {"torch_ddp": Comparison(verdict="agree"), "xla_spmd": Comparison(verdict="unsupported")}
    result = CaseResult(index=0, case=a_case(), runs=ran, comparisons=comparisons)
    with progress.Meter(1, ENDLESS, ENDLESS, Ledger()) as meter:
        meter.count(Progress(result=result))
        time.sleep(0.1)
    line = capsys.readouterr().err.splitlines()[-1]
    assert ", 2 runs, 0 new findings, the last cases are recorded" in line, "one could not run it"


def test_a_log_counts_programs_apart_as_the_summary_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    with progress.Meter(80, ENDLESS, ENDLESS, Ledger()) as meter:
        for case in (a_case(), a_program(an_operator("mean")), a_program(an_operator("mean"))):
            meter.count(Progress(result=CaseResult(index=0, case=case)))
        time.sleep(0.1)
    assert capsys.readouterr().err.splitlines()[-1].startswith("1 case and 2 programs of 80, ")


def a_backend_run(name: str) -> BackendRun:
    return BackendRun(backend=name, outcome=a_failure(), started=BEGAN.isoformat(), seconds=1.0)


def test_a_log_does_not_call_what_torch_leaves_open_a_new_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)
    left_open = changed(FINDING, symptom=Symptom.UNDEFINED)
    with progress.Meter(4, ENDLESS, ENDLESS, Ledger()) as meter:
        meter.count(Progress(result=CaseResult(index=0, case=a_case()), new=(FINDING, left_open)))
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    digest, title = FINDING.fingerprint[-8:], "XLA SPMD: wrong gradient"
    assert [line for line in lines if line.startswith(f"new    {digest}  {title}")]
    assert [line for line in lines if line.startswith(f"left open by torch  {left_open.fingerprint[-8:]}  ")]
    assert ", 1 new finding, " in lines[-1]


def test_a_run_that_raises_is_counted_too() -> None:
    def fails(*_: object) -> None:
        raise InterruptedError

    with Working("ablate") as shown, pytest.raises(InterruptedError):
        shown.counted(fails)(a_case(), "torch_ddp", {})  # type: ignore[arg-type]
    assert shown.line().endswith("1 runs done, 0 running")


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Working("triage") as shown:
        shown.step()
    assert "triage: 1 runs" in screen.getvalue()
