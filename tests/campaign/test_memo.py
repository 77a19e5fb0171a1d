"""Each run is executed once and its outcome shared; infrastructure errors are not kept."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from machines import Machine, a_campaign, always, examined, never, sharded, the_finding
from samples import NOISE, a_case, a_failure, candidate, oracle

from difftest.campaign.campaign import ORACLE
from difftest.campaign.memo import Memo
from difftest.campaign.new_finding import REPEATS
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.judge.outcome import Failure, Outcome


def test_a_run_is_executed_once_for_all_callers() -> None:
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


def test_a_run_that_failed_for_infrastructure_is_executed_again() -> None:
    answers: list[Exception | Failure] = [InfrastructureError("no node"), a_failure()]

    def execute(*_: object) -> Failure:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    once = Memo(execute)
    with pytest.raises(InfrastructureError, match="no node"):
        once(a_case(), "b")
    assert isinstance(once(a_case(), "b"), Failure)


def test_only_the_named_backend_is_memoised() -> None:
    ran: list[str] = []

    def execute(case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        ran.append(backend)
        return candidate(case)

    once = Memo(execute, only=ORACLE)
    for backend in (ORACLE, "b", ORACLE, "b"):
        once(a_case(), backend)
    assert ran == [ORACLE, "b", "b"]


def test_evidence_of_a_finding_runs_the_oracle_again_once_per_case(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, machine := Machine(spmd=sharded), workers=2)
    examined(campaign)
    finding = the_finding(campaign)
    case = campaign.corpus.case(finding.fingerprint)
    requests = {
        (case_id, name): count for (case_id, name), count in machine.requests.items() if name != "ddp"
    }
    assert requests == {
        (case.id, "spmd"): 1 + REPEATS,
        (case.id, "oracle"): 2,  # plain and in doubt for the campaign, none for the evidence
        (case.unsharded().id, "spmd"): 1,
        (case.unsharded().id, "oracle"): 1,
    }


def test_two_findings_of_one_case_share_the_oracle_s_runs(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, machine := Machine(spmd=sharded, ddp=sharded), workers=2)
    (progress,) = examined(campaign)
    case = progress.result.case
    assert len(progress.new) == 2
    assert machine.requests[case.unsharded().id, "oracle"] == 1
    assert machine.requests[case.id, "oracle"] == 2, "as for one finding"


class Near(Machine):
    """A machine whose wrong numbers are so near the noise that its first samples do not make them clear."""

    def answer(self, case: Case, backend: str) -> Outcome:
        """Return the trace of the oracle, or of a candidate that is off by 12 times the oracle's noise."""
        if backend == ORACLE or not self.wrong.get(backend, never)(case):
            return super().answer(case, backend)
        return candidate(case, lambda _step, _key, value: value * (1 + 12 * NOISE))


class Layouts(Near):
    """Such a machine whose oracle computes something else on one device, as with an operator of a mesh."""

    def answer(self, case: Case, backend: str) -> Outcome:
        """Return the trace of the oracle, with another noise on one device, or of a candidate."""
        known = backend == ORACLE and not sharded(case)
        return oracle(case, 1.1 * NOISE) if known else super().answer(case, backend)


@pytest.mark.parametrize(("machine", "runs"), [(Near(spmd=always), 1), (Layouts(spmd=always), 3)])
def test_the_oracle_is_in_doubt_on_one_device_only_if_it_computes_something_else_there(
    tmp_path: Path, machine: Machine, runs: int
) -> None:
    campaign = a_campaign(tmp_path, machine)
    examined(campaign)
    case = campaign.corpus.case(the_finding(campaign).fingerprint)
    assert the_finding(campaign).blame == "xla backend fault"
    assert machine.requests[case.id, "oracle"] == 3, "plain, and with both numbers of more samples"
    assert machine.requests[case.unsharded().id, "oracle"] == runs


def test_a_believed_fault_far_beyond_the_noise_needs_no_more_samples_of_it_on_one_device(
    tmp_path: Path,
) -> None:
    campaign = a_campaign(tmp_path, machine := Machine(spmd=always))
    examined(campaign)
    case = campaign.corpus.case(the_finding(campaign).fingerprint)
    assert machine.requests[case.unsharded().id, "oracle"] == 1


class Failing(Machine):
    """A machine whose oracle fails the second time that it runs a case without more samples."""

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """Return the trace of the oracle or a candidate, or the planted failure."""
        outcome = super().execute(case, backend, options)
        fails = backend == ORACLE and not options and self.requests[case.id, ORACLE] > 1
        return a_failure() if fails else outcome


def test_the_repetitions_are_compared_with_the_oracle_s_first_outcome(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Failing(spmd=sharded))
    examined(campaign)
    finding = the_finding(campaign)
    assert (finding.stable, finding.blame) == ((REPEATS, REPEATS), "xla sharding fault")
