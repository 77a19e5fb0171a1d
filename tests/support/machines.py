"""Stand-ins for what runs cases.

Machines that compute correctly or wrongly as requested, campaigns on them, and a cluster for nightly runs.
"""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

import msgspec
from click.testing import CliRunner, Result
from samples import candidate, oracle, tensor_parallel_case, wrong_at

from difftest import cli
from difftest.campaign.campaign import Campaign
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.findings.ledger import Ledger
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import define
from difftest.jobs.filing.reduction import Task, read_task
from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from difftest.records.observation import Observation
from difftest.records.resume import resumed

Wrong: TypeAlias = Callable[[Case], bool]

WRONG = wrong_at(Stage.BACKWARD, "0.weight")
"""The error of a wrong backend: one element of the first layer's gradient is off by 0.5."""
SIDES = {"ddp": "torch", "spmd": "xla"}

NUMBERED_CASES = tuple(enumerate(tensor_parallel_case(seed=seed) for seed in range(4)))
"""The cases of the campaigns that are killed and resumed."""
CASES_A_NIGHT = 3
FIRST_NIGHT = "2026-11-21"


def never(_case: Case) -> bool:
    return False


def always(_case: Case) -> bool:
    return True


def sharded(case: Case) -> bool:
    return case.world_size > 1


def sharded_after_the_first(case: Case) -> bool:
    """All but the first case of a campaign of the fake cluster: a backend must agree once."""
    return sharded(case) and case.seed % 100 > 0


def sharded_with_odd_seed(case: Case) -> bool:
    return case.seed % 2 == 1 and sharded(case)


class Machine:
    """A stand-in for the machines that run cases; it counts the runs requested of it.

    A run is correct unless the predicate in `wrong` for its backend holds for its case. `spoiled` holds, for
    each backend, how many of its next runs fail by an infrastructure error.
    """

    def __init__(self, **wrong: Wrong) -> None:
        self.wrong, self.requests, self.spoiled = wrong, Counter[tuple[str, str]](), dict[str, int]()
        self._lock = threading.Lock()

    def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        """The outcome of the run; raises InfrastructureError while `spoiled` says so."""
        with self._lock:
            self.requests[case.id, backend] += 1
            if self.spoiled.get(backend, 0) > 0:
                self.spoiled[backend] -= 1
                msg = "a node was lost"
                raise InfrastructureError(msg)
        return self.answer(case, backend)

    def run(self, case: Case, backend: str, *, options: Mapping[str, str]) -> Outcome:
        """Has the signature of `workers.isolate.sandbox.run`, which it replaces."""
        return self.execute(case, backend, options)

    def answer(self, case: Case, backend: str) -> Outcome:
        """The oracle's trace, or a candidate's, which is wrong where `wrong` says so."""
        if backend == "oracle":
            return oracle(case)
        return candidate(case, WRONG if self.wrong.get(backend, never)(case) else None)


def backend(side: str, reason: str | None = None, framework: str = "") -> SimpleNamespace:
    """A stand-in for a backend's module; with a `reason` it supports no case."""
    return SimpleNamespace(SIDE=side, FRAMEWORK=framework or side, unsupported=lambda _case: reason)


def a_campaign(
    root: Path,
    machine: Machine,
    backends: Mapping[str, SimpleNamespace] | None = None,
    workers: int = 1,
    name: str = "one",
) -> Campaign:
    """A campaign on `machine` whose corpus is `root`; by default with one backend of each side."""
    corpus = Corpus(root)
    corpus.prepare()
    there = backends or {name: backend(side) for name, side in SIDES.items()}
    return Campaign(name=name, backends=there, execute=machine.execute, corpus=corpus, workers=workers)


def examined(campaign: Campaign, *cases: Case) -> list[Progress]:
    """Runs the campaign over the cases, or over one if there are none."""
    return list(run(campaign, enumerate(cases or (tensor_parallel_case(),))))


def the_finding(campaign: Campaign) -> Finding:
    """The only finding in the campaign's corpus."""
    (finding,) = campaign.corpus.findings()
    return finding


def machine_with_two_faults() -> Machine:
    """A machine with a fault on each side, one rarer than the other: new and recurring findings alternate."""
    return Machine(spmd=sharded, ddp=sharded_with_odd_seed)


def run_to_the_end(
    root: Path, machine: Machine | None = None, name: str = "one", *, fresh: bool = False
) -> list[Progress]:
    """Starts or resumes the campaign over `NUMBERED_CASES`; the progress of this run only."""
    campaign = a_campaign(root, machine or machine_with_two_faults(), name=name)
    with resumed(campaign.corpus, name, fresh=fresh) as recorded:
        return list(run(campaign, NUMBERED_CASES, recorded))


def timeless_tables(root: Path) -> tuple[list[Observation], list[Finding]]:
    """Everything recorded that must not depend on when, and how often, a campaign was killed.

    Times are left out, and so is which findings were not announced yet.
    """
    corpus = Corpus(root)
    runs = sorted(corpus.observations(), key=lambda run: (run.campaign, run.index, run.case, run.backend))
    timeless = [msgspec.structs.replace(run, started="", seconds=0.0) for run in runs]
    return timeless, [
        msgspec.structs.replace(f, first_seen="", last_seen="", new_in=None, announced="")
        for f in corpus.findings()
    ]


class FakeCluster:
    """A stand-in for the cluster of nightly runs: one machine, and cases that depend on the seed.

    If `killed` is set, the run ends by KeyboardInterrupt before it announces anything. `backends` are those
    of `SIDES` where None, and `references` those of them that run twins alone.
    """

    def __init__(self) -> None:
        self.machine = Machine(spmd=sharded_after_the_first)
        self.killed = False
        self.backends: Mapping[str, SimpleNamespace] | None = None
        self.references = frozenset[str]()

    @contextmanager
    def campaign(self, request: CampaignRequest, corpus: Corpus, _ledger: Ledger) -> Iterator[Campaign]:
        """Replaces `campaign_on_cluster` for a nightly run."""
        campaign = a_campaign(corpus.root, self.machine, self.backends, name=define(request).name)
        yield dataclasses.replace(campaign, references=self.references)
        if self.killed:
            raise KeyboardInterrupt

    @staticmethod
    def cases(request: CampaignRequest, _recorded: object) -> Iterator[tuple[int, Case]]:
        """The cases of a nightly run."""
        return (
            (index, tensor_parallel_case(seed=request.seed % 10**4 * 100 + index))
            for index in range(CASES_A_NIGHT)
        )


def nightly_run(out: Path, *arguments: str, date: str = FIRST_NIGHT) -> Result:
    """`difftest nightly` with these arguments."""
    return CliRunner().invoke(
        cli.difftest, ["nightly", "--out", str(out), "--date", date, *arguments], standalone_mode=False
    )


def campaign_with_finding(root: Path, machine: Machine) -> Campaign:
    """A campaign on `machine` that has run one case."""
    campaign = a_campaign(root, machine)
    examined(campaign)
    return campaign


def a_task(campaign: Campaign) -> Task:
    """The reduction of the campaign's finding."""
    return read_task(campaign.corpus.root / the_finding(campaign).fingerprint, (), None)
