"""Planted faults after which a green result would prove nothing: each is noticed, down to the exit status."""

import dataclasses
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from command_line import answered
from installed_packages import needs
from real_runs import small_case
from rooms import ROOT
from samples import a_case, candidate, oracle

from difftest.cases.case import Case, Training
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.jobs.proof.green_summary import CONTROL, CampaignEnding, green_summary
from difftest.jobs.proof.rates import passed
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome
from workers import faults
from workers.cluster.dispatch import require_versions
from workers.cluster.environments import Environment
from workers.isolate import sandbox
from workers.isolate.answers import new_request, require_answer

CASE = a_case(training=Training(steps=2))
SIDES = {"torch": "torch_dtensor", "xla": "xla_spmd"}
LEAST = 12
"""The issue asks for at least so many faults."""


def ending(fault: str, status: int) -> CampaignEnding:
    return CampaignEnding(fault=fault, about="", sides=(), status=status, reason="")


@pytest.mark.parametrize(
    ("endings", "wrong"),
    [
        ([ending(CONTROL, 0), ending("a", 1), ending("b", 3)], []),
        ([ending(CONTROL, 0), ending("a", 0), ending("b", 3)], ["a"]),
        ([ending(CONTROL, 3), ending("a", 3)], ["without a fault"]),
        ([ending(CONTROL, 0), dataclasses.replace(ending("a", 3), said=False)], ["a"]),
    ],
    ids=["all noticed", "one unnoticed", "nothing ends in green", "a page without the words"],
)
def test_the_self_test_fails_where_a_fault_ends_in_green_or_nothing_does(
    endings: list[CampaignEnding], wrong: list[str]
) -> None:
    summary = green_summary(endings)
    assert summary["wrong"] == wrong
    assert passed({"green": summary}) == (not wrong)


def work(name: str) -> Outcome:
    """What a worker with a fault makes of a request with the number 1, on made-up backends."""

    def run(given: Case, backend: str) -> Outcome:
        outcome = oracle(given) if backend == "oracle" else candidate(given)
        return dataclasses.replace(outcome, origin=new_request(given, backend, "1"))

    return faults.worked(run, CASE, "spmd", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["other_case", "other_backend"])
def test_the_results_of_another_case_or_backend_are_refused(name: str) -> None:
    with pytest.raises(InfrastructureError, match="is that of case"):
        require_answer(work(name), new_request(CASE, "spmd", "1"))


@pytest.mark.slow
def test_the_results_of_an_earlier_run_are_refused() -> None:
    with pytest.raises(InfrastructureError, match="of another request"):
        require_answer(work("stale_results"), new_request(CASE, "spmd", "1"))


@pytest.mark.slow
def test_a_worker_with_another_version_is_refused() -> None:
    with pytest.raises(InfrastructureError, match=r"ran with torch 2\.0\.1"):
        require_versions(work("other_version"), "spmd", Environment())


@pytest.mark.slow
def test_a_worker_that_supports_nothing_says_so() -> None:
    with pytest.raises(UnsupportedError):
        work("nothing_supported")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["steps_missing", "ranks_missing", "no_tensors"])
def test_missing_tensors_diverge_by_their_shape(name: str) -> None:
    comparison = compare(CASE, "spmd", "xla", oracle(CASE), work(name))
    assert {divergence.check for divergence in comparison.divergences} == {"shape"}


def compared(name: str, side: str) -> Comparison:
    """A real run with a fault, compared with the oracle's, which has it too where it is the oracle's."""
    fault, case, backend = faults.vacuous_faults()[name], small_case(), SIDES[side]

    def run(on: str, of: str) -> Outcome:
        return sandbox.run(case, on, options={faults.VARIABLE: name} if fault.planted_into(of) else {})

    return compare(case, backend, side, run("oracle", "oracle"), run(backend, side))


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("host_execution", "values left the device"),
        ("operator_falls_back", "aten::nonzero ran on the host"),
        ("wrong_device", "is on cpu, expected xla"),
    ],
)
def test_work_on_the_host_is_found_although_the_numbers_are_right(name: str, detail: str) -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    comparison = compared(name, "xla")
    assert {divergence.check for divergence in comparison.divergences} == {"on_device"}
    assert any(detail in divergence.detail for divergence in comparison.divergences)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict"), [("oracle_wrong", "diverge"), ("constant_results", "inconclusive")]
)
def test_a_wrong_oracle_and_constant_results_do_not_agree(name: str, verdict: str) -> None:
    assert compared(name, "torch").verdict == verdict


@pytest.fixture
def _needs_both_sides() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    needs("ray", reason="needs ray: pip install 'difftest[cluster]'")


def self_tested() -> dict[str, Any]:
    command = [sys.executable, "-m", "difftest", "selftest", "--green", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    green: dict[str, Any] = json.loads(done.stdout)["green"]
    return green


def statuses(green: dict[str, Any]) -> dict[str, int]:
    return {row["fault"]: row["status"] for row in green["by_fault"]}


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.usefixtures("_needs_both_sides")
def test_a_campaign_with_the_results_of_another_case_ends_in_status_3_and_one_without_in_0() -> None:
    from without_ray import without_ray  # noqa: PLC0415  it imports Ray

    with without_ray():
        status, result = answered("selftest", "--green", "--defects", "other_case")
    green = result["green"]
    assert status == 0
    assert statuses(green) == {CONTROL: 0, "other_case": 3}
    assert "other_case" not in green["wrong"]
    assert "is that of case" in green["by_fault"][1]["reason"]


@pytest.mark.slow
def test_every_vacuous_fault_is_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "accuracy.md").read_text(), re.MULTILINE)
    assert set(documented) >= set(faults.vacuous_faults())
    assert f"plants {len(faults.vacuous_faults())} faults" in (ROOT / "docs" / "accuracy.md").read_text()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.usefixtures("_needs_both_sides")
def test_no_campaign_with_a_vacuous_fault_ends_in_green() -> None:
    green = self_tested()
    assert green["faults"] == green["noticed"] == len(faults.vacuous_faults()) >= LEAST
    assert green["wrong"] == []
    assert set(statuses(green).values()) == {0, 1, 3}


@pytest.mark.slow
def test_a_fault_has_one_name_and_spoils_either_a_session_or_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs("torch", reason="needs torch: pip install 'difftest[xla]'")
    for fault in faults.vacuous_faults().values():
        assert (fault.plant is None) != (fault.work is None)
    monkeypatch.setattr(faults, "all_faults", lambda: {"side_killed": None})
    with pytest.raises(ValueError, match="two planted faults are called 'side_killed'"):
        faults.vacuous_faults.__wrapped__()
