"""The loop over cases waits for nothing without need, and records what a serial run records."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import driver
from machines import Machine, a_campaign, examined, machine_with_two_faults, sharded, timeless_tables
from samples import tensor_parallel_case

from difftest.campaign import run as loop
from difftest.campaign.campaign import ORACLE
from difftest.campaign.new_finding import REPEATS
from difftest.campaign.run import UNRECORDED_PER_WORKER, run
from difftest.campaign.turns import Turns
from difftest.cases.case import Case
from difftest.ground.errors import StoppedError
from difftest.judge.outcome import Outcome, Trace
from difftest.records.corpus import Corpus

CASES = tuple(tensor_parallel_case(seed=seed) for seed in range(24))
PATIENCE_SECONDS = 60.0
"""How long a test waits for what must happen; it fails after that, and passes at once otherwise."""


class Gated(Machine):
    """A machine on which some runs wait until the gate opens."""

    def __init__(self) -> None:
        super().__init__(spmd=sharded)
        self.gate, self.waited = threading.Event(), list[bool]()

    def waits(self, case: Case) -> bool:
        """Whether a run of this case waits: by default those for evidence."""
        return not sharded(case)

    def answer(self, case: Case, backend: str) -> Outcome:
        """The outcome of the run; after the gate has opened, if it waits."""
        if self.waits(case):
            self.waited.append(self.gate.wait(PATIENCE_SECONDS))
        return super().answer(case, backend)


def test_later_cases_run_while_the_evidence_for_a_finding_is_gathered(tmp_path: Path) -> None:
    class Machinery(Gated):
        def answer(self, case: Case, backend: str) -> Outcome:
            if case.id == CASES[7].id and backend == "spmd":
                self.gate.set()
            return super().answer(case, backend)

    machine = Machinery()
    progress = examined(a_campaign(tmp_path, machine, workers=2), *CASES)
    assert machine.waited
    assert all(machine.waited), "case 7 had to run first"
    assert [len(one.new) for one in progress] == [1] + [0] * (len(CASES) - 1)


def test_evidence_for_a_fingerprint_is_gathered_once_however_many_cases_wait_for_it(tmp_path: Path) -> None:
    machine = Gated()

    def cases() -> Iterator[tuple[int, Case]]:
        yield from enumerate(CASES[:8])
        machine.gate.set()

    list(run(a_campaign(tmp_path, machine, workers=2), cases()))
    single = CASES[0].unsharded()
    assert machine.requests[single.id, "spmd"] == 1
    assert machine.requests[CASES[0].id, "spmd"] == 1 + REPEATS
    assert {machine.requests[case.id, "spmd"] for case in CASES[1:8]} == {1}


def test_at_most_a_fixed_number_of_cases_is_drawn_before_the_first_is_recorded(tmp_path: Path) -> None:
    workers, drawn = 2, list[int]()

    class Slow(Gated):
        def waits(self, case: Case) -> bool:
            return case.id == CASES[0].id

    machine = Slow()

    def cases() -> Iterator[tuple[int, Case]]:
        for index, case in enumerate(CASES):
            drawn.append(index)
            if len(drawn) == UNRECORDED_PER_WORKER * workers:
                machine.gate.set()
            yield index, case

    progress = run(a_campaign(tmp_path, machine, workers=workers), cases())
    assert next(progress).result.index == 0
    assert all(machine.waited), "so many cases had to be drawn first"
    assert len(drawn) == UNRECORDED_PER_WORKER * workers < len(CASES)


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 100])
def test_a_campaign_with_many_workers_records_what_a_serial_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(loop, "MOST_AT_ONCE", at_once)
    chance = random.Random(at_once)  # noqa: S311  delays

    def outcome(folder: str, workers: int, delay: float) -> tuple[object, ...]:
        class Uneven(Machine):
            def answer(self, case: Case, backend: str) -> Outcome:
                time.sleep(delay * chance.random())
                return super().answer(case, backend)

        machine = Uneven(**machine_with_two_faults().wrong)
        campaign = a_campaign(tmp_path / folder, machine, workers=workers)
        progress = [
            (
                one.result.index,
                [f.fingerprint for f in one.new],
                [(f.fingerprint, f.hits) for f in one.recurring],
            )
            for one in examined(campaign, *CASES)
        ]
        lines = [(run.index, run.backend) for run in Corpus(tmp_path / folder).observations()]
        return progress, lines, timeless_tables(tmp_path / folder), machine.requests

    assert outcome("many", 8, 0.01) == outcome("one", 1, 0.0)


def test_cases_before_one_that_ends_the_campaign_are_recorded(tmp_path: Path) -> None:
    class Ending(Gated):
        def answer(self, case: Case, backend: str) -> Outcome:
            if case.id == CASES[3].id:
                self.gate.set()  # the evidence for the first case is still gathered
                raise StoppedError("interrupted", status=130)  # noqa: EM101  a made-up stop
            return super().answer(case, backend)

    campaign = a_campaign(tmp_path, Ending(), workers=4)
    with pytest.raises(StoppedError, match="interrupted"):
        examined(campaign, *CASES)
    recorded = {line.index for line in campaign.corpus.observations()}
    assert recorded >= {0, 1, 2}
    assert 3 not in recorded, "it ended the campaign, and runs again"
    assert [finding.hits for finding in campaign.corpus.findings()] == [len(recorded)]


def test_no_tensor_is_kept_once_a_case_was_compared(tmp_path: Path) -> None:
    (progress,) = examined(a_campaign(tmp_path, Machine(spmd=sharded)), CASES[0])
    for one in progress.result.runs.values():
        assert isinstance(one.outcome, Trace)
        assert (one.outcome.steps, one.outcome.noise) == ((), ())
        assert one.outcome.environment


@pytest.mark.long
def test_a_recorded_case_leaves_less_than_a_kilobyte_in_the_driver() -> None:
    assert driver.bytes_kept(100) < 1024.0


def test_no_more_runs_go_on_than_there_are_workers_and_those_for_evidence_come_first() -> None:
    order, gate, started = list[str](), threading.Event(), threading.Event()

    class Noted(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            order.append(backend)
            started.set()
            assert gate.wait(PATIENCE_SECONDS)
            return super().answer(case, ORACLE)

    turns = Turns(Noted().execute, 1)
    waiting = turns._first, turns._others  # noqa: SLF001  the only sign that a thread waits
    calls = [(turns.execute, "first"), (turns.execute, "case"), (turns.execute_first, "evidence")]
    threads = [threading.Thread(target=call, args=(CASES[0], name, {})) for call, name in calls]
    for thread, others in zip(threads, (0, 1, 2), strict=True):
        thread.start()
        assert started.wait(PATIENCE_SECONDS)
        while len(waiting[0]) + len(waiting[1]) < others:
            time.sleep(0.001)
    assert order == ["first"]
    gate.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert order == ["first", "evidence", "case"]
