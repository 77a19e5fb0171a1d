"""Recording a bundle: every run of a campaign is kept, and each of its cases runs unsharded as well."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from difftest.campaign.campaign import ORACLE, BackendTraits, Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.ground.own_folder import own_folder
from difftest.jobs.screen.activity import Working
from difftest.judge.outcome import Outcome
from difftest.records.bundle import BundleWriter
from difftest.records.bundle_lines import EVIDENCE
from difftest.records.comparisons import Comparisons
from difftest.records.corpus import Corpus
from difftest.records.resume import CampaignRecord


class BundleRecording:
    """Runs cases in child processes of this one, and keeps every outcome.

    At most `workers` runs go on at a time, in all threads together. `cases` and `runs` count what was
    recorded; `trouble` says which runs infrastructure failed. `comparisons` are those with the oracle.
    `working` shows how many cases and runs are done.
    """

    def __init__(
        self,
        recorder: BundleWriter,
        backends: Mapping[str, BackendTraits],
        workers: int,
        working: Working,
    ) -> None:
        self._free, self._lock = threading.BoundedSemaphore(workers), threading.Lock()
        self._recorder, self._backends, self._workers = recorder, backends, workers
        self._run, self._working = working.counted(_in_a_child), working
        self._indices: dict[str, int] = {}
        self._executed: set[tuple[str, str]] = set()
        self._done: list[tuple[Case, str]] = []
        self.trouble: list[str] = []
        self.cases = self.runs = 0
        self.comparisons = Comparisons()

    def record(self, cases: Iterable[tuple[int, Case]]) -> None:
        """Runs all cases beside the oracle, as a campaign does, and then each of them on one device."""
        with own_folder("corpus") as folder:
            corpus = Corpus(folder)
            corpus.prepare()
            campaign = Campaign(
                name="record",
                backends=self._backends,
                execute=self._execute,
                corpus=corpus,
                workers=self._workers,
            )
            recorded = CampaignRecord(comparisons=self.comparisons)
            for progress in run(campaign, self._numbered(cases), recorded):
                self._count(progress.result)
                self._working.case_done()
        self._working.goes_on("record: each case on one device")
        with ThreadPoolExecutor(self._workers) as threads:
            list(threads.map(self._run_unsharded, self._done))

    def _numbered(self, cases: Iterable[tuple[int, Case]]) -> Iterator[tuple[int, Case]]:
        """The cases, whose indices are remembered: cases with an index are the campaign's own."""
        for index, case in cases:
            self._indices[case.id] = index
            yield index, case

    def _count(self, result: CaseResult) -> None:
        """Counts a case that ran on the backends supporting it, but for runs that infrastructure failed."""
        absent = {name: (one.status, one.reason) for name, one in result.missing.items()}
        self._recorder.miss(result.index, result.case, absent)
        if result.trouble:
            self.trouble.append(f"case {result.case.id}: {result.trouble}")
        if result.runs:
            self.cases += 1
            self._done += [(result.case, name) for name in result.runs if name != ORACLE]

    def _execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """One run, kept before it is compared with anything."""
        with self._free:
            outcome = self._run(case, backend, options)
        index = self._indices.get(case.id, EVIDENCE)
        traits = self._backends.get(backend)
        who = (backend, traits.SIDE, traits.FRAMEWORK) if traits else (ORACLE, ORACLE, "")
        self._recorder.keep(index, case, who, options, outcome)
        with self._lock:
            self._executed.add((case.id, backend))
            self.runs += 1
        return outcome

    def _run_unsharded(self, done: tuple[Case, str]) -> None:
        """Runs a case on one device, once for each backend: the blame of findings needs it."""
        single, backend = done[0].unsharded(), done[1]
        for name in (ORACLE, backend):
            supported = name == ORACLE or not self._backends[name].unsupported(single)
            if supported and (single.id, name) not in self._executed:
                try:
                    self._execute(single, name, {})
                except InfrastructureError as error:
                    self.trouble.append(f"case {single.id} on {name}: {error}")


def _in_a_child(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
    from workers.isolate import sandbox

    return sandbox.run(case, backend, options=options)
