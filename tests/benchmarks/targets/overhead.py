"""How much of the processors' time the runs of a campaign get: the rest is what the service itself costs.

The runs' time is the processor time of the ranks, from their fork to their end: building, compiling,
training and leaving the results. The whole is the wall time of the campaign times the cores, so that a
core that waits counts as a cost. The rest is what this process uses (it chooses, compares and records),
what the processes use that ranks are forked from, and what the cores wait. It takes three minutes.
"""

import os
import time
from collections.abc import Iterator

from benchmarks._processor_time import own_and_childrens
from benchmarks.targets import Figure
from benchmarks.targets._campaign import campaign, warm

SEED, NUMBERS = 0, range(70, 82)
CORES = os.cpu_count() or 1
MOST = 1.15
"""The whole, in units of the runs' time."""


def figures() -> Iterator[Figure]:
    """Over cases whose faults are known, and with the evidence for what is new."""
    pids = {zygote.pid for zygote in warm()}
    before, began = _used(pids), time.monotonic()
    compared = sum(len(result.comparisons) for result in campaign(SEED, NUMBERS, CORES))
    whole = CORES * (time.monotonic() - began)
    driver, forking, runs = (after - start for after, start in zip(_used(pids), before, strict=True))
    waiting = whole - driver - forking - runs
    rest = ", ".join(
        f"{name} {part / whole:.0%}"
        for name, part in (("driver", driver), ("forking", forking), ("waiting", waiting))
    )
    words = f"{compared} comparisons on {CORES} cores (overhead {whole / runs:.2f}; {rest})"
    yield Figure(f"share of the runs in {words}", runs / whole, 1 / MOST)


def _used(pids: set[int]) -> tuple[float, float, float]:
    """The processor time of this process, of those that fork ranks, and of the ranks, so far."""
    own, ranks = zip(*map(own_and_childrens, pids), strict=True)
    return time.process_time(), sum(own), sum(ranks)
