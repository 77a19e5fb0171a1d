"""`compare.html`: two recorded runs, their losses inside what rounding may do, where they part first."""

import math
from typing import NamedTuple

from difftest.runs import words
from difftest.runs.comparison import Point, RunComparison
from reports import cells
from reports.page.curves import HEIGHT, WIDTH, Scale, path
from reports.page.template import template

FILENAME = "compare.html"


class Curves(NamedTuple):
    """The losses of both runs and the band around the first, as paths; the ends of the axes.

    `wrong` and `horizon` are where the first wrong step and the last comparable one are across; None without.
    """

    band: str
    first: str
    second: str
    least: str
    most: str
    begin: int
    end: int
    wrong: int | None
    horizon: int | None


def render(comparison: RunComparison) -> bytes:
    """The page of a comparison."""
    page = template("runs.html").render(
        comparison=comparison,
        settings=words.grouped(comparison.settings),
        verdict=words.verdict(comparison),
        place=words.place(comparison.first, measured=comparison.measured) if comparison.first else "",
        follows=words.follows(comparison),
        evidence=words.evidence(comparison),
        curves=_curves(comparison),
        height=HEIGHT,
    )
    return page.encode()


def _curves(comparison: RunComparison) -> Curves | None:
    """The drawing; None where losses of fewer than two steps were recorded."""
    points = [point for point in comparison.points if point.first is not None and point.second is not None]
    if len(points) < 2:  # noqa: PLR2004  a curve has two points
        return None
    mine, other = ([_value(point, name) for point in points] for name in ("first", "second"))
    scale = Scale([*mine, *other])
    low = [value - point.band for value, point in zip(mine, points, strict=True)]
    high = [value + point.band for value, point in zip(mine, points, strict=True)]
    steps = [point.step for point in points]
    return Curves(
        band=path(scale, high) + path(scale, low, back=True) + "Z",
        first=path(scale, mine),
        second=path(scale, other),
        least=cells.shown(scale.least),
        most=cells.shown(scale.most),
        begin=steps[0],
        end=steps[-1],
        wrong=_across(comparison.first.step if comparison.first else None, steps),
        horizon=_across(comparison.horizon, steps),
    )


def _value(point: Point, name: str) -> float:
    value: float | None = getattr(point, name)
    return math.nan if value is None else value


def _across(step: int | None, steps: list[int]) -> int | None:
    """Where a step is across the drawing, whose points are equally far apart."""
    if step is None or step not in steps:
        return None
    return round(WIDTH * steps.index(step) / (len(steps) - 1))
