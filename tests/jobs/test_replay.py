"""Replaying a race: a case is repeated under load, and each outcome is counted."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from machines import Machine, a_campaign, backend, examined, the_finding
from samples import NOISE, a_case, a_failure, candidate, oracle, tensor_parallel_case, wrong_at

from difftest.campaign.campaign import ORACLE
from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.commands.replay import command
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.campaign.cpu_load import busy
from difftest.jobs.campaign.repeats import rates
from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage
from workers.isolate import sandbox

DIVERGES, AGREES = 1, 0
SLIGHTLY = 1e-3


def result(backend: str, verdict: str, *fingerprints: str) -> dict[str, object]:
    return {"backend": backend, "verdict": verdict, "fingerprints": list(fingerprints)}


def test_outcomes_are_counted_per_backend_with_the_most_frequent_first() -> None:
    crash = "xla_spmd-completion-crash-00000000"
    results = [
        result("xla_spmd", "agree"),
        *[result("xla_spmd", "diverge", crash)] * 2,
        result("torch_ddp", "unsupported"),
    ]
    assert rates(results) == {"xla_spmd": {crash: 2, "agree": 1}, "torch_ddp": {"unsupported": 1}}
    assert list(rates(results)["xla_spmd"]) == [crash, "agree"]


def test_load_runs_during_the_repeats_and_ends_with_them() -> None:
    def children() -> int:
        return len(psutil.Process().children())

    before = children()
    with busy(2):
        assert children() == before + 2
    assert children() == before


@pytest.mark.long
def test_load_ends_if_the_process_is_killed() -> None:
    program = (
        "import time\nfrom difftest.jobs.campaign.cpu_load import busy\n"
        "with busy(2): print(flush=True), time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as hunt:
        assert hunt.stdout
        hunt.stdout.readline()
        load = psutil.Process(hunt.pid).children()
        hunt.send_signal(signal.SIGTERM)
    left = psutil.wait_procs(load, timeout=10)[1]
    for process in left:
        process.kill()
    assert (len(load), left) == (2, [])


@pytest.mark.parametrize(
    ("check", "by", "runs"), [("determinism", lambda run: 5e-8 * run, 4), ("gradients", lambda _run: 0.5, 2)]
)
def test_only_a_determinism_finding_is_replayed_with_two_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: str, by: Callable[[int], float], runs: int
) -> None:
    class Restless(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            wrong = wrong_at(Stage.BACKWARD, "0.weight", by=by(self.requests[case.id, backend]))
            return oracle(case) if backend == ORACLE else candidate(case, wrong)

    machine = Restless()
    campaign = replace(a_campaign(tmp_path, machine, {"torch_ddp": backend("torch")}), twice_every=1)
    examined(campaign, a_case())
    assert the_finding(campaign).divergence.check == check
    machine.requests.clear()
    monkeypatch.setattr(
        sandbox,
        "run",
        lambda case, name, *, deadline, options=None: machine.execute(case, name, options or {}),
    )
    folder = tmp_path / the_finding(campaign).fingerprint
    done = CliRunner().invoke(command, [str(folder), "--times", "2", "--json"], standalone_mode=False)
    assert (done.return_value, json.loads(done.stdout)["reproduced"]) == (DIVERGES, 2)
    assert machine.requests[a_case().id, "torch_ddp"] == runs


@pytest.mark.parametrize(("noise_in_doubt", "status"), [(NOISE, DIVERGES), (1e-1, AGREES)])
def test_a_mismatch_is_reported_only_if_an_oracle_with_more_samples_agrees_and_that_runs_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, noise_in_doubt: float, status: int
) -> None:
    requests = []

    def execute(
        case: Case, backend: str, *, deadline: float, options: Mapping[str, str] | None = None
    ) -> Outcome:
        requests.append((backend, options))
        if backend == ORACLE:
            return oracle(case, noise_in_doubt if options else NOISE)
        return candidate(case, wrong_at(Stage.BACKWARD, "0.weight", by=SLIGHTLY))

    monkeypatch.setattr(sandbox, "run", execute)
    file = tmp_path / "case.json"
    file.write_bytes(a_case().to_json())
    done = CliRunner().invoke(
        command, [str(file), "--backends", "torch_ddp", "--times", "2"], standalone_mode=False
    )
    assert done.return_value == status, done.output
    assert requests == [(ORACLE, None), ("torch_ddp", None), (ORACLE, MORE_SAMPLES), ("torch_ddp", None)]


def replayed(tmp_path: Path, case: Case, *words: str) -> Result:
    file = tmp_path / "case.json"
    file.write_bytes(case.to_json())
    return CliRunner().invoke(command, [str(file), "--backends", "torch_ddp", *words], standalone_mode=False)


def test_a_replay_that_compares_nothing_is_an_infrastructure_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def execute(case: Case, backend: str, **_rest: object) -> Outcome:
        return a_failure(message="no memory") if backend == ORACLE else candidate(case)

    monkeypatch.setattr(sandbox, "run", execute)
    done = replayed(tmp_path, a_case(), "--json")
    assert isinstance(done.exception, InfrastructureError)
    assert str(done.exception).startswith(
        "nothing was compared: torch_ddp is inconclusive: the oracle failed"
    )
    assert json.loads(done.stdout)["rates"] == {"torch_ddp": {"inconclusive": 1}}


def test_a_replay_that_no_backend_supports_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "run", lambda case, _backend, **_rest: oracle(case))
    done = replayed(tmp_path, tensor_parallel_case())
    assert isinstance(done.exception, UsageError)
    assert "no backend supports the case: torch_ddp: " in str(done.exception)
