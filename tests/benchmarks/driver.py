"""How busy one driver keeps its workers, what a comparison costs it, and what a case leaves in its memory.

    python tests/benchmarks/driver.py

The workers are stand-ins: threads that sleep as long as a run takes. All else is real: cases are compared,
each 20th shows a fault of its own for which evidence is gathered, and a corpus is written to disk. Cases are
not generated (`generation.py`). It prints a line for each figure, and takes 7 minutes.
"""

import gc
import itertools
import os
import string
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import click
import msgspec

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from samples import a_failure, candidate, oracle, tensor_parallel_case  # noqa: E402  found on the path above

from difftest.campaign.campaign import ORACLE, Campaign  # noqa: E402
from difftest.campaign.run import run  # noqa: E402
from difftest.cases.case import Case  # noqa: E402
from difftest.jobs.campaign.tally import Tally  # noqa: E402
from difftest.judge.comparator import compare  # noqa: E402
from difftest.judge.outcome import Outcome  # noqa: E402
from difftest.records.corpus import Corpus  # noqa: E402
from difftest.records.resume import CampaignRecord  # noqa: E402

CASE = tensor_parallel_case()
SIDES = {"ddp": "torch", "spmd": "xla"}
CASES_PER_FINDING = 20
WORKERS = ((64, 0.05), (256, 0.05), (64, 2.0), (256, 2.0), (1000, 2.0))
"""Numbers of workers, and how many seconds a run takes."""

WARM_UP_RUNS = 30
"""After so many runs in a row, evidence is gathered and cases are recorded as fast as cases are drawn."""

STEADY_SECONDS = 20.0
MEMORY_CASES = 2000
MEMORY_CAMPAIGNS = 4
COMPARISONS = 300


def main() -> None:
    """Prints each figure as soon as it is there."""
    click.echo(
        f"driver: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; targets: 1000 workers with"
    )
    click.echo("runs of 2 s at least 80 % busy, less than 1024 B kept for a case")
    for count, seconds in WORKERS:
        click.echo(busy(count, seconds))
    click.echo(f"a case that diverged leaves {bytes_kept(MEMORY_CASES):.0f} B in the driver's memory")
    click.echo(comparison())


class Workers:
    """A number of stand-in workers, for which runs wait as they do for Ray's."""

    def __init__(self, count: int, seconds: float, fault: Callable[[int], str]) -> None:
        """`fault` gives the kind of failure that a case with this seed shows, empty for none."""
        self._count, self._seconds, self._fault = count, seconds, fault
        self._free, self._lock = threading.Semaphore(count), threading.Lock()
        self._busy, self._busy_seconds, self._changed = 0, 0.0, time.monotonic()
        self._outcomes: dict[tuple[int, str], Outcome] = {}
        for case in (CASE, CASE.unsharded()):
            self._outcomes[case.world_size, ORACLE] = oracle(case)
            self._outcomes |= {(case.world_size, name): candidate(case) for name in SIDES}

    def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        """A run that agrees with the oracle, or fails if the case is one that shows a fault."""
        with self._free:
            self._change(1)
            time.sleep(self._seconds)
            self._change(-1)
        if backend == "spmd" and case.world_size > 1 and (kind := self._fault(case.seed)):
            return a_failure(kind=kind)
        return self._outcomes[case.world_size, backend]

    def busy_share(self, seconds: float) -> float:
        """The share of the workers' time that they are busy in the next `seconds`."""
        self._change(0)
        before = self._busy_seconds
        time.sleep(seconds)
        self._change(0)
        return (self._busy_seconds - before) / (self._count * seconds)

    def _change(self, by: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._busy_seconds += self._busy * (now - self._changed)
            self._busy, self._changed = self._busy + by, now


def now_and_then(seed: int) -> str:
    """A fault of its own for every 20th case, named in letters: numbers are not part of a fingerprint."""
    if seed % CASES_PER_FINDING:
        return ""
    return "".join(string.ascii_letters[int(digit)] for digit in str(seed))


def a_campaign(folder: str, workers: Workers, count: int) -> Campaign:
    """A campaign with one backend of each side."""
    corpus = Corpus(Path(folder))
    corpus.prepare()
    backends = {
        name: SimpleNamespace(SIDE=side, FRAMEWORK=side, unsupported=lambda _case: None)
        for name, side in SIDES.items()
    }
    return Campaign(name="one", backends=backends, execute=workers.execute, corpus=corpus, workers=count)


def cases(indices: Iterator[int]) -> Iterator[tuple[int, Case]]:
    """Cases that differ in their seeds."""
    return ((index, msgspec.structs.replace(CASE, seed=index)) for index in indices)


def busy(count: int, seconds: float) -> str:
    """The share of `count` workers that are busy with runs of `seconds` once the campaign goes steadily."""
    workers, stop = Workers(count, seconds, now_and_then), threading.Event()
    figures, recorded = list[float](), list[int]()

    def watch() -> None:
        time.sleep(WARM_UP_RUNS * seconds + 3.0)
        before, processor = len(recorded), time.process_time()
        figures.append(workers.busy_share(STEADY_SECONDS))
        figures.append((len(recorded) - before) / STEADY_SECONDS)
        figures.append((time.process_time() - processor) / STEADY_SECONDS)
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with tempfile.TemporaryDirectory() as folder:
        endless = itertools.takewhile(lambda _: not stop.is_set(), itertools.count())
        for progress in run(a_campaign(folder, workers, count), cases(endless)):
            recorded.append(progress.result.index)
            if stop.is_set():
                break
    watcher.join()
    share, rate, cores = figures
    words = f"{share:.1%} busy, {rate:.0f} cases/s recorded, the driver takes {cores:.2f} cores"
    return f"{count} workers with runs of {seconds:g} s: {words}"


def bytes_kept(count: int) -> float:
    """What the driver still has of a case that diverged, after it was recorded: the mean of `count` cases.

    It is the least of several campaigns: a module that is imported late or a cache that fills once shows in
    one of them, what each case leaves in all.
    """
    workers, recorded, tally, sizes = (
        Workers(8, 0.0, lambda _: "Same"),
        CampaignRecord(),
        Tally(),
        list[int](),
    )
    with tempfile.TemporaryDirectory() as folder:
        tracemalloc.start()
        for start in range(0, count * MEMORY_CAMPAIGNS, count):
            indices = iter(range(start, start + count))
            for progress in run(a_campaign(folder, workers, 8), cases(indices), recorded):
                tally.count(progress)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return min(after - before for before, after in itertools.pairwise(sizes)) / count


def comparison() -> str:
    """The processor time of comparing one run of a very small case: 2 parameters, one step."""
    expected, actual = oracle(CASE), candidate(CASE)
    began = time.process_time()
    for _ in range(COMPARISONS):
        compare(CASE, "ddp", "torch", expected, actual)
    return f"comparing a run takes {(time.process_time() - began) / COMPARISONS * 1000:.1f} ms of a core"


if __name__ == "__main__":
    main()
