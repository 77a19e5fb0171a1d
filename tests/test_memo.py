"""Runs that are made once, whoever asks: the same outcome for all, and none that failed for want of a machine is kept."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from machines import Machine, a_campaign, examined, sharded, the_finding
from samples import a_case, a_failure, candidate

from difftest.campaign.campaign import ORACLE
from difftest.campaign.memo import Memo
from difftest.campaign.new_finding import REPEATS
from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.judge.outcome import Failure, Outcome


def test_a_correct_run_is_made_once_whoever_asks() -> None:
    ran: list[tuple[str, str, Mapping[str, str]]] = []

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Failure:
        ran.append((case.id, backend, options))
        return a_failure()

    once, case = Memo(execute), a_case()
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda _: once(case, "b", {}), range(8)))
    assert all(outcome is outcomes[0] for outcome in outcomes)
    assert once(case, "b", {"OPTION": "1"}) is not outcomes[0], "another way of running is another run"
    assert len(ran) == 2


def test_a_run_that_infrastructure_spoiled_is_asked_for_again() -> None:
    answers: list[Exception | Failure] = [InfrastructureError("no node"), a_failure()]

    def execute(*_: object) -> Failure:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    once = Memo(execute)
    with pytest.raises(InfrastructureError, match="no node"):
        once(a_case(), "b")
    assert isinstance(once(a_case(), "b"), Failure)


def test_where_one_backend_is_named_the_others_run_as_often_as_asked() -> None:
    ran: list[str] = []

    def execute(case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        ran.append(backend)
        return candidate(case)

    once = Memo(execute, only=ORACLE)
    for backend in (ORACLE, "b", ORACLE, "b"):
        once(a_case(), backend)
    assert ran == [ORACLE, "b", "b"]


def test_a_finding_s_evidence_runs_the_oracle_anew_and_once_a_case(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, machine := Machine(spmd=sharded), workers=2)
    examined(campaign)
    finding = the_finding(campaign)
    case = campaign.corpus.case(finding.fingerprint)
    requests = {
        (case_id, name): count for (case_id, name), count in machine.requests.items() if name != "ddp"
    }
    assert requests == {
        (case.id, "spmd"): 1 + REPEATS,
        (case.id, "oracle"): 2 + 2,  # plain and in doubt, for the campaign and for the evidence
        (case.unsharded().id, "spmd"): 1,
        (case.unsharded().id, "oracle"): 1,
    }


class Failing(Machine):
    """Its oracle fails the first time that a finding's evidence asks it."""

    def answer(self, case: Case, backend: str) -> Outcome:
        """The oracle's trace or a failure, or a candidate's."""
        if backend == ORACLE and self.requests[case.id, ORACLE] == 2 + 1:
            return a_failure()
        return super().answer(case, backend)


def test_an_oracle_that_fails_once_costs_one_repetition_and_no_finding(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Failing(spmd=sharded))
    examined(campaign)
    finding = the_finding(campaign)
    assert (finding.stable, finding.blame) == ((REPEATS - 1, REPEATS - 1), "xla sharding fault")
