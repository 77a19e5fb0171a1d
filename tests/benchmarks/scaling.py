"""How long a run takes with more ranks, more parameters and more steps, each alone.

    python tests/benchmarks/scaling.py

A run is one in fresh processes, forked from a warm one. The model is a linear layer of as many inputs as
outputs, replicated, with one row of the batch for every rank. *Steepest* is the greatest exponent between two
neighbours of a curve: at 1 a run takes twice as long for twice the work, and a cliff is far above that.
"""

import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from samples import a_case  # noqa: E402  found on the path above

from difftest.cases.case import Case, Data, Training  # noqa: E402
from difftest.cases.layers.linear import Linear  # noqa: E402
from difftest.judge.outcome import Trace  # noqa: E402
from workers.isolate import sandbox  # noqa: E402

BACKENDS = ("oracle", "torch_ddp", "torch_dtensor", "xla_spmd")
TIMES = 2
"""How often each run is made; the faster one counts."""


def case(*, ranks: int = 2, width: int = 8, steps: int = 1) -> Case:
    """A linear layer of `width` squared parameters on replicas."""
    return a_case(
        (Linear(inputs=width, outputs=width),),
        mesh=(("dp", ranks),),
        training=Training(steps=steps),
        fed=Data(batch=ranks),
    )


def of_parameters(number: int) -> Case:
    """A case of about so many parameters."""
    return case(width=math.isqrt(number))


CURVES: Mapping[str, tuple[Callable[[int], Case], tuple[int, ...]]] = {
    "ranks": (lambda number: case(ranks=number), (1, 2, 4, 8, 16)),
    "parameters": (of_parameters, (1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
    "steps": (lambda number: case(steps=number), (1, 5, 25, 100, 200)),
}


def seconds(measured: Case, backend: str) -> float:
    """The wall time of a run, which must end in a trace."""
    taken = list[float]()
    for _ in range(TIMES):
        began = time.monotonic()
        outcome = sandbox.run(measured, backend)
        taken.append(time.monotonic() - began)
        if not isinstance(outcome, Trace):
            msg = f"{backend} failed: {outcome.message}"
            raise SystemExit(msg)
    return min(taken)


@click.command()
@click.option("--only", type=click.Choice(list(CURVES)), multiple=True, help="Measure this alone.")
@click.option("--backend", type=click.Choice(BACKENDS), multiple=True, help="Measure this alone.")
def main(only: tuple[str, ...], backend: tuple[str, ...]) -> None:
    """Prints a table for each curve, in seconds."""
    load = f"load {os.getloadavg()[0]:.1f} before"
    click.echo(f"seconds of a run: {os.cpu_count()} cores, {load}")
    for name in backend or BACKENDS:
        sandbox.run(case(), name)  # starts what the others are forked from
    for curve in only or CURVES:
        made, numbers = CURVES[curve]
        click.echo(f"\n| {curve} | {' | '.join(f'{number:,}' for number in numbers)} | steepest |")
        click.echo("|---" * (len(numbers) + 2) + "|")
        for name in backend or BACKENDS:
            taken = [seconds(made(number), name) for number in numbers]
            steepest = max(
                math.log(after / before) / math.log(more / few)
                for (before, after), (few, more) in zip(
                    itertools.pairwise(taken), itertools.pairwise(numbers), strict=True
                )
            )
            click.echo(f"| {name} | {' | '.join(f'{one:.2f}' for one in taken)} | {steepest:.2f} |")


if __name__ == "__main__":
    main()
