"""Triage of whole findings on fake backends: the status, and the fields that are saved."""

from collections import Counter
from datetime import date
from pathlib import Path

import msgspec
import pytest
from machines import (
    Machine,
    a_campaign,
    a_task,
    backend,
    campaign_with_finding,
    examined,
    sharded,
    the_finding,
)
from sample_findings import FINDING
from samples import a_case, a_failure, tensor_parallel_case

from difftest.campaign.again import AGREES, UNDECIDED
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.cases.layers.linear import Linear
from difftest.commands.triage import _backends
from difftest.findings.ledger import Entry, Ledger
from difftest.findings.triage import Status, Triaged, status, triage
from difftest.ground.errors import InfrastructureError
from difftest.jobs.filing.reduction import keep, search
from difftest.judge.outcome import Outcome, Symptom
from difftest.records.corpus import REDUCED
from workers.backends import candidates

TODAY = date(2026, 11, 21)
NOTHING = Ledger()
F, G = FINDING.fingerprint, "other-00000000"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([F, F, F], Status.REPRODUCED),
        ([F, F, AGREES], Status.REPRODUCED),
        ([F, AGREES, AGREES], Status.UNSTABLE),
        ([F, G], Status.UNSTABLE),
        ([AGREES, AGREES], Status.FIXED),
        ([AGREES, G], Status.CHANGED),
        ([G], Status.CHANGED),
        ([UNDECIDED, UNDECIDED], Status.ERROR),
        ([], Status.ERROR),
        ([UNDECIDED, F], Status.REPRODUCED),
        ([UNDECIDED, AGREES], Status.FIXED),
    ],
)
def test_the_status_depends_on_the_fingerprints_of_the_runs(shown: list[str], expected: Status) -> None:
    assert status(F, shown) == expected


@pytest.mark.parametrize(
    ("stable", "returned", "expected"),
    [
        ((2, 2), (0, 0), True),
        ((1, 2), (0, 0), False),
        ((0, 0), (0, 0), False),
        ((2, 2), (0, 3), False),
        ((0, 2), (2, 3), True),
    ],
)
def test_the_last_runs_decide_if_a_finding_is_steady(
    stable: tuple[int, int], returned: tuple[int, int], expected: bool
) -> None:
    assert msgspec.structs.replace(FINDING, stable=stable, returned=returned).steady == expected


def triaged(campaign: Campaign, ledger: Ledger = NOTHING, times: int = 3) -> Triaged:
    (one,) = triage(campaign, ledger, TODAY, times)
    return one


def test_a_fault_that_is_still_there_is_recorded_as_reproduced(tmp_path: Path) -> None:
    campaign = campaign_with_finding(tmp_path, Machine(spmd=sharded))
    before = the_finding(campaign)
    one = triaged(campaign)
    assert the_finding(campaign) == one.finding
    assert (one.finding.status, one.finding.returned, bool(one.finding.checked)) == (
        "REPRODUCED",
        (3, 3),
        True,
    )
    assert msgspec.structs.replace(one.finding, status="", returned=(0, 0), checked="") == before


def test_a_fault_that_is_gone_is_fixed_and_one_with_a_ledger_entry_passes(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    machine.wrong = {}
    entry = Entry(fingerprint="spmd-*", upstream="pytorch/xla#1", reason="wrong", expires=TODAY)
    assert not triaged(campaign).passes
    one = triaged(campaign, Ledger(entries=(entry,)))
    assert (one.finding.status, one.finding.returned, one.entry, one.passes) == ("FIXED", (0, 3), entry, True)
    machine.wrong = {"spmd": sharded}
    assert not triaged(campaign, Ledger(entries=(entry,))).passes


def test_a_fault_with_another_fingerprint_has_changed(tmp_path: Path) -> None:
    class Crashing(Machine):
        crashing = False

        def answer(self, case: Case, backend: str) -> Outcome:
            return (
                a_failure(Symptom.CRASH)
                if self.crashing and backend == "spmd"
                else super().answer(case, backend)
            )

    machine = Crashing(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    machine.crashing = True
    one = triaged(campaign)
    assert (one.finding.status, [name.rpartition("-")[0] for name in one.now_shows]) == (
        "CHANGED",
        ["spmd-completion-crash"],
    )


def test_an_intermittent_fault_is_unstable(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    turns = iter([True, False, False])
    machine.wrong = {"spmd": lambda _case: next(turns)}
    assert (triaged(campaign).finding.status, the_finding(campaign).returned) == ("UNSTABLE", (1, 3))
    assert not the_finding(campaign).steady


def test_an_infrastructure_error_does_not_change_the_status_of_a_finding(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    machine.spoiled = {"spmd": 100}
    one = triaged(campaign)
    assert (one.finding.status, one.finding.returned, one.trouble) == ("ERROR", (0, 0), "a node was lost")


def test_a_missing_backend_or_an_unsupported_case_is_an_error(tmp_path: Path) -> None:
    gone = campaign_with_finding(tmp_path, Machine(spmd=sharded))
    for backends, trouble in (
        ({"ddp": backend("torch")}, "there is no backend 'spmd' any more"),
        ({"spmd": backend("xla", "it cannot")}, "spmd does not support the case: it cannot"),
    ):
        one = triaged(a_campaign(tmp_path, Machine(), backends))
        assert (one.finding.status, one.trouble) == ("ERROR", trouble)
    assert the_finding(gone).status == "ERROR"


def test_backends_that_run_only_on_request_are_triaged_too(tmp_path: Path) -> None:
    names = ("torchax", "xla_spmd@2.8", "spmd")
    campaign = a_campaign(
        tmp_path, Machine(**dict.fromkeys(names, sharded)), dict.fromkeys(names, backend("xla"))
    )
    examined(campaign)
    requested = candidates(_backends(list(campaign.corpus.findings())))
    assert set(requested) == {"torchax", "xla_spmd@2.8"}, "there is no backend called spmd"


def wide(case: Case) -> bool:
    """Whether a large enough weight is sharded: that is the fault."""
    return sharded(case) and case.model.outputs >= 3


def test_a_finding_is_reduced_and_its_conditions_are_saved(tmp_path: Path) -> None:
    machine = Machine(spmd=wide)
    campaign = a_campaign(tmp_path, machine)
    examined(campaign, tensor_parallel_case(), a_case())
    task = a_task(campaign)
    result = search(campaign, task, budget=30)
    assert result
    keep(*result)
    finding = the_finding(campaign)
    small = campaign.corpus.simplest(finding.fingerprint)
    assert (finding.reduced, finding.conditions) == (small.id, result[1].conditions)
    assert "world size 2" in finding.conditions
    assert small.model.layers == (Linear(inputs=4, outputs=4, bias=False),)
    assert campaign.corpus.case(finding.fingerprint) == tensor_parallel_case()
    assert {file.name for file in task.file.parent.iterdir()} == {"finding.json", "case.json", REDUCED}
    assert triaged(campaign).finding.status == "REPRODUCED"


def test_triage_runs_the_reduced_case(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    small = tensor_parallel_case(seed=9)
    campaign.corpus.save_reduced(the_finding(campaign).fingerprint, small, ("world size 2",))
    triaged(campaign, times=1)
    assert machine.requests[small.id, "spmd"] == 1


def reduced_to(campaign: Campaign, **changes: object) -> tuple[Case, Case]:
    """Gives the finding a reduced case; returns the reduced and the original case."""
    small = tensor_parallel_case(seed=9, **changes)
    campaign.corpus.save_reduced(the_finding(campaign).fingerprint, small, ("world size 2",))
    return small, campaign.corpus.case(the_finding(campaign).fingerprint)


def test_a_fault_that_only_its_reduced_case_no_longer_shows_is_still_there(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    small, own = reduced_to(campaign)
    machine.wrong = {"spmd": lambda case: case.id == own.id}
    one = triaged(campaign, times=2)
    assert (one.finding.status, one.finding.returned, one.case) == ("REPRODUCED", (2, 2), own.id)
    assert one.trouble == f"the reduced case {small.id} does not show it any more"


def test_if_the_reduced_case_shows_another_fault_the_original_case_is_run(tmp_path: Path) -> None:
    class Crashing(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            return (
                a_failure(Symptom.CRASH)
                if backend == "spmd" and case.seed == 9
                else super().answer(case, backend)
            )

    machine = Crashing(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    reduced_to(campaign)
    assert triaged(campaign).finding.status == "REPRODUCED"
    machine.wrong = {}
    one = triaged(campaign)
    assert (one.finding.status, [name.rpartition("-")[0] for name in one.now_shows]) == (
        "CHANGED",
        ["spmd-completion-crash"],
    )


def test_a_fault_is_fixed_if_neither_the_reduced_nor_the_original_case_shows_it(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    small, own = reduced_to(campaign)
    machine.wrong, machine.requests = {}, Counter()
    one = triaged(campaign, times=2)
    assert (one.finding.status, one.finding.returned, one.case, one.trouble) == ("FIXED", (0, 4), own.id, "")
    assert machine.requests[small.id, "spmd"] == machine.requests[own.id, "spmd"] == 2


def test_a_fault_is_not_fixed_if_runs_of_the_original_case_failed_for_infrastructure(
    tmp_path: Path,
) -> None:
    class Lost(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            if case.seed != 9 and not self.wrong:
                msg = "a node was lost"
                raise InfrastructureError(msg)
            return super().answer(case, backend)

    machine = Lost(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    small, _ = reduced_to(campaign)
    machine.wrong = {}
    one = triaged(campaign)
    assert (one.finding.status, one.trouble) == (
        "ERROR",
        f"the reduced case {small.id} does not show it any more; a node was lost",
    )


def test_a_case_too_large_for_the_machine_is_not_run_and_the_reason_is_given(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    own = campaign.corpus.case(the_finding(campaign).fingerprint)
    reason = f"it has a mesh of {own.world_size} ranks; this machine allows at most 1"
    (whole,) = triage(campaign, NOTHING, TODAY, most_ranks=1)
    assert (whole.finding.status, whole.trouble) == ("ERROR", reason)
    small = a_case(mesh=(("dp", 1),))
    campaign.corpus.save_reduced(the_finding(campaign).fingerprint, small, ())
    (one,) = triage(campaign, NOTHING, TODAY, most_ranks=1)
    assert (one.finding.status, one.case, one.trouble) == (
        "FIXED",
        small.id,
        f"its own case {own.id} was not run: {reason}",
    )


def test_a_campaign_increments_the_hits_of_a_triaged_finding_and_keeps_its_status(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = campaign_with_finding(tmp_path, machine)
    triaged(campaign)
    examined(a_campaign(tmp_path, machine, name="two"))
    assert (the_finding(campaign).hits, the_finding(campaign).status) == (2, "REPRODUCED")


def test_fields_that_older_findings_lack_are_empty(tmp_path: Path) -> None:
    campaign = campaign_with_finding(tmp_path, Machine(spmd=sharded))
    file = campaign.corpus.root / the_finding(campaign).fingerprint / "finding.json"
    fields = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    later = {"reduced", "conditions", "status", "checked", "returned"}
    file.write_bytes(
        msgspec.json.encode({name: value for name, value in fields.items() if name not in later})
    )
    finding = the_finding(campaign)
    assert (finding.reduced, finding.conditions, finding.status, finding.returned) == ("", (), "", (0, 0))
