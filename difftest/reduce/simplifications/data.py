"""Plainer data: few rows, normally distributed, nothing to ignore and nothing to learn."""

from collections.abc import Iterator
from functools import partial

import msgspec

from difftest.cases.case import Case
from difftest.reduce.candidate import Candidate, Simplification, smaller, tried
from difftest.reduce.measure import simpler

ORDER = 5
USUAL_RATE = 2.0**-4
LEAST_RATE = 2.0**-10
"""A learning rate below this was meant for larger numbers: with normal ones it moves nothing."""


def normal_numbers(case: Case) -> Iterator[Candidate]:
    """The normal regime, or the exact one.

    In the exact regime, sums of small integers show every wrong bit.
    """
    regime = case.data.regime
    for plain in {"normal": (), "exact": ("normal",)}.get(regime, ("normal", "exact")):
        yield from tried(f"regime {regime}", partial(_of_regime, case, plain))


def nothing_ignored(case: Case) -> Iterator[Candidate]:
    """Every target counts."""
    if case.data.ignored:
        yield from tried(
            f"{case.data.ignored:.0%} of the targets ignored", partial(case.changed, "data", ignored=0.0)
        )


def nothing_to_learn(case: Case) -> Iterator[Candidate]:
    """Random targets, and another batch every step."""
    if case.data.learnable:
        yield from tried("a task that can be learned", partial(case.changed, "data", learnable=False))


def fewer_rows(case: Case) -> Iterator[Candidate]:
    """Two rows in each part for every rank that has its own; or one less, which is an uneven cut."""
    ranks, parts, rows = case.layout.data_ranks, case.training.accumulation, case.data.batch
    few = (2 * ranks * parts, (2 * ranks - 1) * parts)
    yield from simpler(
        case,
        smaller(
            f"batch {rows}",
            rows,
            few,
            lambda size: case.changed("data", batch=max(parts, size // parts * parts)),
        ),
    )


def even_rows(case: Case) -> Iterator[Candidate]:
    """More rows, so that the ranks share those of a part evenly."""
    ranks, parts = case.layout.data_ranks, case.training.accumulation
    rows = case.data.batch // parts
    if rows % ranks:
        words = f"{rows} rows a part, which {ranks} ranks do not share evenly"
        yield from simpler(
            case, tried(words, partial(case.changed, "data", batch=(rows + -rows % ranks) * parts))
        )


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    normal_numbers,
    nothing_ignored,
    nothing_to_learn,
    fewer_rows,
    even_rows,
)


def _of_regime(case: Case, regime: str) -> Case:
    rate = case.training.learning_rate
    training = msgspec.structs.replace(
        case.training, learning_rate=rate if rate >= LEAST_RATE else USUAL_RATE
    )
    return msgspec.structs.replace(case.changed("data", regime=regime), training=training)
