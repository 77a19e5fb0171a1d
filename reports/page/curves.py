"""Loss curves: what both sides lose step by step beside the float64 reference, and how far that is off."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from difftest.judge.noise import FLOORS_MOST, THRESHOLD
from difftest.records.comparisons import ORACLE
from difftest.records.curves import Curve
from reports import cells
from reports.report import Report

WIDTH, HEIGHT = 1000, 120
"""The units of a drawing; the page stretches it."""

MARGIN = 6
"""Above and below the curves, in the same units."""

LOGARITHMIC_FROM = 30.0
"""From this ratio of the greatest to the least loss on, its axis is logarithmic."""

LEAST_OFF, MOST_OFF = 0.1, 1e9
"""The ends of the axis of errors, in units of the rounding noise; an error beyond them is drawn there."""

LEAST_END = 1e3
"""That axis goes on to here at least."""


class CurveLine(NamedTuple):
    """One run: the class that draws it, its path in both drawings, and its words."""

    kind: str
    loss: str
    off: str
    words: str


class CurveDrawing(NamedTuple):
    """The curves of one case: the band of rounding, the reference, and the runs.

    `least` to `most` are the ends of the axis of losses, `farthest` is that of errors, `threshold` the height
    of the greatest error that is still rounding, and `steps` the number of the last step.
    """

    band: str
    reference: str
    lines: tuple[CurveLine, ...]
    least: str
    most: str
    farthest: str
    threshold: int
    steps: int


def drawing(report: Report, curves: Sequence[Curve], chosen: str = "") -> CurveDrawing | None:
    """The drawing of a case's curves, in which the backend `chosen` stands out.

    None without a reference, its noise, or a run beside it.
    """
    truth = next((curve.losses for curve in curves if curve.backend == ORACLE), None)
    runs = [curve for curve in curves if curve.backend != ORACLE]
    if truth is None or not runs or len(truth.noise) != len(truth.values):
        return None
    low = [value - THRESHOLD * noise for value, noise in zip(truth.values, truth.noise, strict=True)]
    high = [value + THRESHOLD * noise for value, noise in zip(truth.values, truth.noise, strict=True)]
    scale = Scale([*truth.values, *(value for run in runs for value in run.losses.values)])
    errors = [_errors(run, truth.values, truth.noise) for run in runs]
    within = (min(max(error, LEAST_OFF), MOST_OFF) for each in errors for error in each)
    off = Scale([LEAST_OFF, LEAST_END, *within])
    lines = [
        CurveLine(
            "chosen" if run.backend == chosen else run.side,
            path(scale, run.losses.values),
            path(off, each),
            f"{report.spoken(run.backend)}: at most {cells.shown(max(each))} x the rounding noise off",
        )
        for run, each in zip(runs, errors, strict=True)
        if each
    ]
    lines.sort(key=lambda line: line.kind == "chosen")
    band = path(scale, high) + path(scale, low, back=True) + "Z"
    return CurveDrawing(
        band=band,
        reference=path(scale, truth.values),
        lines=tuple(lines),
        least=cells.shown(scale.least),
        most=cells.shown(scale.most),
        farthest=cells.shown(off.most),
        threshold=off.height(THRESHOLD),
        steps=len(truth.values) - 1,
    )


def longest(report: Report) -> list[tuple[str, CurveDrawing]]:
    """The drawings of the longest cases that have one, each with the case in words."""
    runs = report.runs.drop_duplicates("case").set_index("case")
    drawn = []
    for case in report.longest:
        if curves := drawing(report, report.curves.get(case, ())):
            run = runs.loc[case]
            words = f"{run['series']} {run['index']}, {str(run['path']).replace('_', ' ')}, {run['mesh']}"
            drawn.append((f"{words}, {run['dtype']}, {run['optimizer']}", curves))
    return drawn


class Scale:
    """An axis upwards from the least to the greatest of some values, logarithmic where they differ much."""

    def __init__(self, values: Iterable[float]) -> None:
        finite = [value for value in values if abs(value) < FLOORS_MOST] or [0.0]
        self.least, self.most = min(finite), max(finite)
        self._logarithmic = self.least > 0 and self.most >= LOGARITHMIC_FROM * self.least

    def height(self, value: float) -> int:
        """The height of a value, counted from above; one beyond the axis is at its end."""
        low, high, at = (self._at(loss) for loss in (self.least, self.most, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN))

    def _at(self, value: float) -> float:
        within = min(max(value, self.least), self.most)
        return math.log(within) if self._logarithmic else within


def _errors(run: Curve, truth: Sequence[float], noise: Sequence[float]) -> list[float]:
    """How far each loss is off, in units of its rounding noise."""
    each = zip(run.losses.values, truth, noise, strict=False)
    return [
        0.0
        if value == expected
        else FLOORS_MOST
        if not floor
        else min(FLOORS_MOST, abs(value - expected) / floor)
        for value, expected, floor in each
    ]


def path(scale: Scale, values: Sequence[float], *, back: bool = False) -> str:
    """A line through some values, step by step; `back` goes on from the last one to the first."""
    most = max(1, len(values) - 1)
    points = [f"{round(WIDTH * step / most)} {scale.height(value)}" for step, value in enumerate(values)]
    return "L" + "L".join(reversed(points)) if back else "M" + "L".join(points)
