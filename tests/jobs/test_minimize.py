"""Reduction of whole findings and of case files on fake backends: what is run, saved and refused."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from machines import (
    Machine,
    a_campaign,
    a_task,
    always,
    campaign_with_finding,
    sharded,
    the_finding,
)
from samples import a_case, a_failure, tensor_parallel_case

from difftest.cases.case import Case
from difftest.commands import minimize
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.filing.reduction import keep, read_task, search
from difftest.judge.outcome import Outcome, Symptom
from difftest.records.case_files import write_case
from difftest.records.corpus import REDUCED


def test_another_fault_does_not_count_as_the_one_that_is_reduced(tmp_path: Path) -> None:
    """Without its bias the case shows another fault: the bias stays."""

    class Two(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            if backend == "spmd" and sharded(case) and "0.bias" not in case.model.parameters():
                return a_failure(Symptom.CRASH)
            return super().answer(case, backend)

    campaign = campaign_with_finding(tmp_path, Two(spmd=sharded))
    result = search(campaign, a_task(campaign), budget=30)
    assert result
    assert "layer 0 has a bias" in result[1].conditions


def test_an_interrupted_reduction_resumes_when_it_is_requested_again(tmp_path: Path) -> None:
    campaign = campaign_with_finding(tmp_path, Machine(spmd=sharded))
    task = a_task(campaign)
    part = search(campaign, task, budget=3)
    assert part
    assert not part[1].complete
    assert task.journal.is_file()
    keep(*part)
    rest = search(campaign, a_task(campaign), budget=30)
    assert rest
    assert rest[1].complete
    assert not task.journal.exists()


def test_a_flaky_fault_is_run_several_times(tmp_path: Path) -> None:
    campaign = campaign_with_finding(tmp_path, Machine(spmd=sharded))
    assert a_task(campaign).tries == 1
    campaign.corpus.amend(the_finding(campaign).fingerprint, stable=(1, 2))
    assert a_task(campaign).tries == 3


@pytest.mark.parametrize(("name", "chosen"), [("", "ddp"), ("case.json", "ddp"), ("case.json", "spmd")])
def test_another_reduction_does_not_overwrite_that_of_the_finding(
    tmp_path: Path, name: str, chosen: str
) -> None:
    campaign = campaign_with_finding(tmp_path / "corpus", Machine(spmd=sharded, ddp=always))
    folder = next(
        campaign.corpus.root / finding.fingerprint
        for finding in campaign.corpus.findings()
        if finding.divergence.backend == "spmd"
    )
    for out in (None, folder / REDUCED):
        with pytest.raises(
            UsageError,
            match=r"'.*reduced\.json' is kept for the finding's own reduction; give another file with --out",
        ):
            read_task(folder / name, (chosen,), out)
    result = search(campaign, read_task(folder / name, (chosen,), tmp_path / REDUCED), budget=30)
    assert result
    keep(*result)
    assert (tmp_path / REDUCED).is_file()
    assert {file.name for file in folder.iterdir()} == {"finding.json", "case.json"}


def test_results_of_one_backend_are_not_used_for_another(tmp_path: Path) -> None:
    """One file is reduced for two backends in turn, and the first reduction is not finished."""
    file = tmp_path / "case.json"
    file.write_bytes(tensor_parallel_case().to_json())
    campaign = a_campaign(tmp_path / "corpus", Machine(spmd=always, ddp=sharded))
    part = search(campaign, read_task(file, ("spmd",), None), budget=2)
    result = search(campaign, read_task(file, ("ddp",), None), budget=30)
    assert part
    assert result
    assert (part[1].complete, result[1].complete, result[1].case.world_size) == (False, True, 2)
    assert part[0].journal.is_file(), "it can be continued"


def test_a_case_file_is_reduced_to_its_first_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_bytes(tensor_parallel_case(seed=4).to_json())
    campaign = a_campaign(tmp_path / "corpus", Machine(spmd=always))
    task = read_task(file, ("spmd",), None)
    result = search(campaign, task, budget=30)
    assert result
    assert (result[0].fingerprint.rpartition("-")[0], result[1].case.world_size) == (
        "spmd-gradients-mismatch",
        1,
    )
    keep(*result)
    assert (tmp_path / REDUCED).is_file()
    assert search(campaign, read_task(file, ("ddp",), None), budget=30) is None


def test_a_finding_that_is_not_reproduced_is_not_reduced(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    machine.wrong = {}
    assert search(campaign, a_task(campaign), budget=30) is None


def test_minimize_prints_json_also_if_nothing_was_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minimize, "_run", lambda *_: None)
    write_case(tmp_path / "case.json", a_case())
    done = CliRunner().invoke(
        minimize.command,
        [str(tmp_path / "case.json"), "--backend", "xla_spmd", "--json"],
        standalone_mode=False,
    )
    assert (done.return_value, json.loads(done.stdout)) == (
        1,
        {"fingerprint": "", "case": a_case().id, "reduced": None},
    )


def test_an_infrastructure_error_ends_the_search(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    machine.spoiled = {"oracle": 100}
    with pytest.raises(InfrastructureError, match="a node was lost"):
        search(campaign, a_task(campaign), budget=30)


@pytest.mark.parametrize("given", [(), ("spmd", "ddp")])
def test_a_case_needs_one_backend(tmp_path: Path, given: tuple[str, ...]) -> None:
    file = tmp_path / "case.json"
    file.write_bytes(a_case().to_json())
    with pytest.raises(UsageError, match=r"\d backends are given for .*case\.json'; give one with --backend"):
        read_task(file, given, None)
