"""How many cases are generated in a second, here and ahead of need in other processes.

python tests/benchmarks/generation.py
"""

import os
import sys
import time
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from generators.ahead import cases_ahead  # noqa: E402  found on the path above
from generators.cases import case_at  # noqa: E402
from generators.explore import BLOCK  # noqa: E402

SEED = 6
WARM_UP = 3 * BLOCK
CASES = 20 * BLOCK


def main() -> None:
    """Prints each figure as soon as it is there."""
    load = f"load {os.getloadavg()[0]:.1f} before"
    click.echo(f"generation: {os.cpu_count()} cores, {load}; target: 200 cases/s on 2 cores")
    click.echo(here())
    click.echo(ahead())


def here() -> str:
    """The processor time of one case, drawn in this process."""
    for index in range(BLOCK):
        case_at(SEED + 1, index)
    began = time.process_time()
    for index in range(2 * BLOCK):
        case_at(SEED, index)
    return f"generating a case takes {1000 * (time.process_time() - began) / (2 * BLOCK):.1f} ms of a core"


def ahead() -> str:
    """Cases a second as a campaign draws them, after its processes have started."""
    drawing = cases_ahead(SEED, range(WARM_UP + CASES))
    for _ in range(WARM_UP):
        next(drawing)
    began = time.monotonic()
    count = sum(1 for _ in drawing)
    return f"{count / (time.monotonic() - began):.0f} cases/s are generated ahead of need"


if __name__ == "__main__":
    main()
