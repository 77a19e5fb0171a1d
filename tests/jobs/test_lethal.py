"""Runs that kill what runs them: once is infrastructure, twice is a finding that does not run again."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
from machines import FIRST_NIGHT, FakeCluster, Machine, a_campaign, examined, nightly_run, the_finding
from samples import tensor_parallel_case

from difftest.campaign.campaign import LETHAL_TIMES
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.commands import nightly
from difftest.ground.errors import NODE_LOST, OUT_OF_MEMORY, LethalError
from difftest.jobs.campaign import generated_cases
from difftest.judge.outcome import Outcome
from difftest.records.evidence import SET_ASIDE
from difftest.records.resume import resumed


class Lethal(Machine):
    """A machine that loses its node in the first `deaths` runs of every sharded case on one backend."""

    def __init__(self, deaths: int, kind: str = NODE_LOST) -> None:
        super().__init__()
        self._deaths, self._kind = deaths, kind

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome of the run; raises LethalError for the first ones of a sharded case."""
        outcome = super().execute(case, backend, options)
        if backend == "spmd" and case.world_size > 1 and self.requests[case.id, backend] <= self._deaths:
            msg = "the node died while the case ran on it"
            raise LethalError(msg, kind=self._kind)
        return outcome


def test_a_run_that_was_lethal_once_is_tried_again_and_is_no_finding(tmp_path: Path) -> None:
    machine = Lethal(deaths=1)
    (progress,) = examined(a_campaign(tmp_path, machine))
    assert (progress.new, progress.result.trouble, progress.result.lost) == ((), "", 0)
    assert progress.result.comparisons["spmd"].verdict == "agree"
    assert machine.requests[tensor_parallel_case().id, "spmd"] == 2


@pytest.mark.parametrize("kind", [NODE_LOST, OUT_OF_MEMORY])
def test_a_case_that_is_lethal_twice_is_a_finding_and_does_not_run_again(tmp_path: Path, kind: str) -> None:
    machine = Lethal(deaths=100, kind=kind)
    campaign, case = a_campaign(tmp_path, machine), tensor_parallel_case()
    (progress,) = examined(campaign)
    finding = the_finding(campaign)
    assert [one.fingerprint for one in progress.new] == [finding.fingerprint]
    assert finding.fingerprint.startswith("spmd-completion-crash-")
    assert (finding.evidence[SET_ASIDE], finding.blame) == (kind, "xla sharding fault")
    assert kind in finding.divergence.detail
    assert machine.requests[case.id, "spmd"] == LETHAL_TIMES, "neither a repetition nor the evidence runs it"
    with resumed(campaign.corpus, campaign.name) as recorded:
        assert list(run(campaign, enumerate((case,)), recorded)) == [], "it is recorded"
    verdicts = {o.backend: (o.verdict, o.outcome.kind) for o in campaign.corpus.observations()}
    assert verdicts["spmd"] == ("diverge", kind)


def test_lethal_cases_of_one_backend_are_one_finding(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Lethal(deaths=100))
    examined(campaign, tensor_parallel_case(), tensor_parallel_case(seed=1))
    assert the_finding(campaign).hits == 2


@pytest.mark.long
def test_the_next_night_does_not_run_a_case_again_that_killed_its_nodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = FakeCluster()
    cluster.machine = Lethal(deaths=100)
    monkeypatch.setattr(nightly, "campaign_on_cluster", cluster.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", cluster.cases)
    nightly_run(tmp_path, date=FIRST_NIGHT)
    before = cluster.machine.requests.copy()
    nightly_run(tmp_path, date="2026-11-22")
    again = {case for case, count in before.items() if cluster.machine.requests[case] > count}
    assert before
    assert not again


def test_a_lethal_error_stays_one_between_processes() -> None:
    error = pickle.loads(pickle.dumps(LethalError("3 GiB used", kind=OUT_OF_MEMORY)))  # noqa: S301  our own
    assert (str(error), error.kind) == ("3 GiB used", OUT_OF_MEMORY)
