"""How many cases are generated in a second, with the choice of each from its pool."""

import time
from collections.abc import Iterator

from benchmarks.targets import Figure
from generators.cases import case_at
from generators.explore import BLOCK

CORES = 2
SEED, WARM_UP_SEED = 6, 7
CASES = 2 * BLOCK


def figures() -> Iterator[Figure]:
    """By processor time, so that other programs on the machine change little."""
    for index in range(BLOCK):
        case_at(WARM_UP_SEED, index)
    began = time.process_time()
    for index in range(CASES):
        case_at(SEED, index)
    seconds = (time.process_time() - began) / CASES
    yield Figure(f"cases/s generated, the rate of one core times {CORES}", CORES / seconds, 200.0)
