"""The evidence of a finding: the blame that it gives, the layer at fault, and how often it was reproduced."""

import dataclasses
from pathlib import Path

import pytest
from machines import Machine, Wrong, a_campaign, always, backend, examined, sharded, the_finding
from samples import candidate

from difftest.campaign.campaign import Campaign
from difftest.campaign.new_finding import REPEATS
from difftest.cases.case import Case
from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage


@pytest.mark.parametrize(
    ("wrong", "blames"),
    [
        ({"spmd": sharded}, {"spmd": "xla sharding fault"}),
        ({"ddp": sharded}, {"ddp": "torch sharding fault"}),
        ({"spmd": always}, {"spmd": "xla backend fault"}),
        ({"ddp": always, "spmd": sharded}, {"ddp": "torch backend fault", "spmd": "shared sharding fault"}),
        (
            {"ddp": sharded, "spmd": sharded},
            {"ddp": "shared sharding fault", "spmd": "shared sharding fault"},
        ),
        ({"ddp": always, "spmd": always}, {"ddp": "oracle in doubt", "spmd": "oracle in doubt"}),
    ],
)
def test_the_blame_follows_from_the_square(
    tmp_path: Path, wrong: dict[str, Wrong], blames: dict[str, str]
) -> None:
    campaign = a_campaign(tmp_path, Machine(**wrong))
    examined(campaign)
    assert {finding.divergence.backend: finding.blame for finding in campaign.corpus.findings()} == blames


def test_the_evidence_records_the_square(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine(spmd=sharded))
    examined(campaign)
    assert the_finding(campaign).evidence == {"single": "agrees", "other": "agrees", "other_single": "agrees"}
    alone = a_campaign(tmp_path / "alone", Machine(spmd=sharded), {"spmd": backend("xla")})
    examined(alone)
    assert the_finding(alone).evidence == {
        "single": "agrees",
        "other": "no telling",
        "other_single": "no telling",
    }
    assert the_finding(alone).blame == "xla sharding fault"


@pytest.mark.parametrize(
    ("wrong", "layer_evidence"),
    [
        ({"spmd": sharded}, {"right_siblings": "second", "layer": "torch_xla: torchax is right"}),
        (
            {"spmd": sharded, "second": sharded},
            {"wrong_siblings": "second", "layer": "xla itself, or what it is given: torchax is wrong alike"},
        ),
    ],
)
def test_another_framework_of_the_same_side_determines_the_layer_at_fault(
    tmp_path: Path, wrong: dict[str, Wrong], layer_evidence: dict[str, str]
) -> None:
    backends = {"spmd": backend("xla", framework="torch_xla"), "second": backend("xla", framework="torchax")}
    campaign = a_campaign(tmp_path, Machine(**wrong), backends)
    examined(campaign)
    finding = next(finding for finding in campaign.corpus.findings() if finding.divergence.backend == "spmd")
    square = {"single": "agrees", "other": "no telling", "other_single": "no telling"}
    assert finding.evidence == square | layer_evidence


def test_another_backend_of_the_same_framework_gives_no_layer_at_fault(tmp_path: Path) -> None:
    backends = {name: backend("xla", framework="torch_xla") for name in ("spmd", "annotated")}
    campaign = a_campaign(tmp_path, Machine(spmd=sharded), backends)
    examined(campaign)
    assert the_finding(campaign).evidence["right_siblings"] == "annotated"
    assert "layer" not in the_finding(campaign).evidence


def test_a_run_on_another_device_is_no_evidence_about_the_sharding(tmp_path: Path) -> None:
    class OneGpu(Machine):
        """A machine with one GPU: runs of one rank use it, runs of two ranks use the CPU."""

        def answer(self, case: Case, backend: str) -> Outcome:
            device = "cpu" if case.world_size > 1 else "NVIDIA H200"
            return dataclasses.replace(super().answer(case, backend), environment={"device": device})

    campaign = a_campaign(tmp_path, OneGpu(ddp=sharded))
    examined(campaign)
    assert (the_finding(campaign).evidence["single"], the_finding(campaign).blame) == (
        "no telling",
        "torch fault",
    )


def test_one_agreeing_backend_of_the_other_side_suffices(tmp_path: Path) -> None:
    backends = {"spmd": backend("xla"), "ddp": backend("torch"), "fsdp": backend("torch")}
    campaign = a_campaign(tmp_path, Machine(spmd=sharded, ddp=sharded), backends)
    examined(campaign)
    blames = {finding.divergence.backend: finding.blame for finding in campaign.corpus.findings()}
    assert blames == {"spmd": "xla sharding fault", "ddp": "shared sharding fault"}


def test_a_divergence_that_is_not_reproduced_is_inconclusive(tmp_path: Path) -> None:
    first = iter([True])
    campaign = a_campaign(tmp_path, Machine(spmd=lambda _case: next(first, False)))
    (progress,) = examined(campaign)
    assert [(f.blame, f.stable) for f in progress.new] == [
        ("inconclusive: it did not come back", (0, REPEATS))
    ]


def test_an_intermittent_divergence_has_its_reproductions_counted(tmp_path: Path) -> None:
    now_and_then = iter([True, False, True])
    campaign = a_campaign(tmp_path, Machine(spmd=lambda _case: next(now_and_then, False)))
    examined(campaign)
    assert (the_finding(campaign).stable, the_finding(campaign).blame) == ((1, 2), "xla sharding fault")


@pytest.mark.parametrize(("where", "fault"), [(sharded, "sharding fault"), (always, "backend fault")])
def test_two_faults_whose_damage_differs_are_not_a_shared_fault(
    tmp_path: Path, where: Wrong, fault: str
) -> None:
    class Two(Machine):
        """A machine on which both sides' gradients are wrong, one side's by their sign."""

        def answer(self, case: Case, backend: str) -> Outcome:
            negated = candidate(case, lambda _step, key, value: -value if key[0] is Stage.BACKWARD else value)
            return negated if backend == "spmd" and where(case) else super().answer(case, backend)

    campaign = a_campaign(tmp_path, Two(ddp=where))
    (progress,) = examined(campaign)
    assert {one.divergence.backend: one.blame for one in progress.new} == {
        "ddp": f"torch {fault}",
        "spmd": f"xla {fault}",
    }


EVERY_KNOWN_FAULT, NO_KNOWN_FAULT = 1, 10**9
"""How many known faults share the evidence of one: the fingerprints' remainders are hardly ever 0."""


def known_faults(folder: Path, machine: Machine, in_full: int) -> Campaign:
    """A campaign on the machine after one case, all of whose divergences are known."""
    campaign = dataclasses.replace(
        a_campaign(folder, machine),
        explanation=lambda *_, **__: "an entry of the ledger",
        known_in_full=in_full,
    )
    examined(campaign)
    return campaign


def test_a_known_fault_costs_no_run_unless_it_is_one_of_those_with_all_evidence(
    tmp_path: Path,
) -> None:
    finding = the_finding(known_faults(tmp_path / "one", machine := Machine(spmd=sharded), NO_KNOWN_FAULT))
    assert (finding.stable, finding.blame) == ((0, 0), "xla fault")
    assert finding.evidence == {"other": "agrees"}
    case = finding.case
    assert {name: count for (of, name), count in machine.requests.items() if of == case} == {
        "oracle": 1,
        "ddp": 1,
        "spmd": 1,
    }
    assert {of for of, _ in machine.requests} == {case}, "nothing ran on one device"
    finding = the_finding(known_faults(tmp_path / "all", Machine(spmd=sharded), EVERY_KNOWN_FAULT))
    assert (finding.stable, finding.blame) == ((REPEATS, REPEATS), "xla sharding fault")


def test_a_known_fault_that_the_other_side_shows_too_has_all_evidence(tmp_path: Path) -> None:
    campaign = known_faults(tmp_path, Machine(spmd=sharded, ddp=sharded), NO_KNOWN_FAULT)
    assert {(finding.blame, finding.stable) for finding in campaign.corpus.findings()} == {
        ("shared sharding fault", (REPEATS, REPEATS))
    }
