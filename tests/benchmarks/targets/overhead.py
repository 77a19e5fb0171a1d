"""How much of the processors' time the runs of a campaign get: the rest is what the service itself costs.

The runs' time is the processor time of the ranks, from their fork to their end: building, compiling, training
and leaving the results. The whole is the wall time of the campaign times the cores, so that a core that waits
counts as a cost. It takes three minutes.
"""

import os
import time
from collections.abc import Iterator

from benchmarks._processor_time import processor_seconds
from benchmarks.targets import Figure
from benchmarks.targets._campaign import campaign, warm

SEED, NUMBERS = 0, range(70, 82)
CORES = os.cpu_count() or 1
MOST = 1.15
"""The whole, in units of the runs' time."""


def figures() -> Iterator[Figure]:
    """Over cases whose faults are known, and with the evidence for what is new."""
    pids = {zygote.pid for zygote in warm()}
    before, began = sum(map(processor_seconds, pids)), time.monotonic()
    compared = sum(len(result.comparisons) for result in campaign(SEED, NUMBERS, CORES))
    whole = CORES * (time.monotonic() - began)
    runs = sum(map(processor_seconds, pids)) - before
    words = f"share of the runs in {compared} comparisons on {CORES} cores (overhead {whole / runs:.2f})"
    yield Figure(words, runs / whole, 1 / MOST)
