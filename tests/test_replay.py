"""Hunting a race: a case again and again under load, and how often each outcome came."""

from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from samples import NOISE, a_case, candidate, oracle, wrong_at

from difftest.case import Case
from difftest.commands.replay import busy, command, rates
from difftest.examine import IN_DOUBT, ORACLE
from difftest.outcome import Outcome, Stage
from workers import sandbox

DIVERGES, AGREES = 1, 0
SLIGHTLY = 1e-3


def result(backend: str, verdict: str, *fingerprints: str) -> dict[str, object]:
    return {"backend": backend, "verdict": verdict, "fingerprints": list(fingerprints)}


def test_outcomes_are_counted_by_backend_the_most_frequent_first() -> None:
    crash = "xla_spmd-completion-crash-00000000"
    results = [result("xla_spmd", "agree"), *[result("xla_spmd", "diverge", crash)] * 2, result("torch_ddp", "unsupported")]
    assert rates(results) == {"xla_spmd": {crash: 2, "agree": 1}, "torch_ddp": {"unsupported": 1}}
    assert list(rates(results)["xla_spmd"]) == [crash, "agree"]


def test_load_runs_beside_and_ends_with_the_hunt() -> None:
    def children() -> int:
        return len(psutil.Process().children())

    before = children()
    with busy(2):
        assert children() == before + 2
    assert children() == before


@pytest.mark.parametrize(("noise_in_doubt", "status"), [(NOISE, DIVERGES), (1e-1, AGREES)])
def test_a_mismatch_is_told_only_once_an_oracle_in_doubt_agrees_and_that_runs_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, noise_in_doubt: float, status: int
) -> None:
    asked = []

    def execute(case: Case, backend: str, *, deadline: float, options: Mapping[str, str] | None = None) -> Outcome:  # noqa: ARG001
        asked.append((backend, options))
        if backend == ORACLE:
            return oracle(case, noise_in_doubt if options else NOISE)
        return candidate(case, wrong_at(Stage.BACKWARD, "0.weight", by=SLIGHTLY))

    monkeypatch.setattr(sandbox, "run", execute)
    file = tmp_path / "case.json"
    file.write_bytes(a_case().to_json())
    done = CliRunner().invoke(command, [str(file), "--backends", "torch_ddp", "--times", "2"], standalone_mode=False)
    assert done.return_value == status, done.output
    assert asked == [(ORACLE, None), ("torch_ddp", None), (ORACLE, IN_DOUBT), ("torch_ddp", None)]
