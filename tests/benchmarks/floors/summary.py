"""The figures of a calibration, and its plot."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.floors.plot import COLOURS, svg
from benchmarks.floors.record import Record
from difftest.judge.noise import THRESHOLD

FACTOR = 3.0
"""How far the predicted noise may be from the real error, for 95 % of the operators."""

SIDES = {"native": "torch on the CPU", "xla": "XLA on one device", "larger": "the larger of both"}


def summary(file: Path, plot: Path | None, caption: str) -> str:
    """The figures as text; with `plot`, the SVG is written."""
    records = [msgspec.json.decode(line, type=Record) for line in file.read_bytes().splitlines()]
    measured = [record for record in records if record.elements]
    lines = [f"{len(measured)} tensors of {len({r.operator for r in measured})} operators"]
    groups = {side: ratios(measured, side) for side in SIDES}
    for side, by_group in groups.items():
        lines += _figures(side, by_group, measured) if by_group else []
    if plot:
        panels = {
            SIDES[side]: {dtype: own for dtype in COLOURS if (own := _of_dtype(by_group, dtype))}
            for side, by_group in groups.items()
            if by_group
        }
        plot.write_text(svg(panels, caption))
    return "\n".join(lines)


Group = tuple[str, str, str]
"""Operator, dtype, stage."""


def ratios(records: Iterable[Record], side: str) -> Mapping[Group, float]:
    """By operator, dtype and stage: the real error in units of the predicted noise, root mean square.

    Tensors without any error are left out: there, nothing was rounded.
    """
    squares = defaultdict[Group, list[float]](list)
    for record in records:
        error = of_side(record, side)
        if error and math.isfinite(error):
            stage = record.tensor.partition(".")[0]
            squares[record.operator, record.dtype, stage].append(error**2)
    return {group: math.sqrt(sum(each) / len(each)) for group, each in squares.items()}


def of_side(record: Record, side: str) -> float | None:
    """The real error in units of the simulated noise; None where XLA gave none."""
    if side == "larger":
        return None if record.xla is None else max(record.native, record.xla)
    return record.native if side == "native" else record.xla


def _figures(side: str, groups: Mapping[Group, float], records: Sequence[Record]) -> list[str]:
    inside = sum(1 / FACTOR <= ratio <= FACTOR for ratio in groups.values())
    below = sum(ratio < 1 / FACTOR for ratio in groups.values())
    share, above = f"{inside / len(groups):.1%}", len(groups) - inside - below
    what = f"{len(groups)} (operator, dtype, stage) within a factor of {FACTOR:g}"
    lines = [f"{SIDES[side]}: {share} of {what}, {below} below, {above} above"]
    if side == "larger":
        return lines
    worst = ((getattr(r, f"{side}_worst"), r) for r in records if of_side(r, side) is not None)
    beyond = [(far, r) for far, r in worst if far > THRESHOLD]
    lines.append(f"{len(beyond)} tensors beyond {THRESHOLD:g} floors")
    lines += [f"  {far:9.3g}  {r.operator} {r.dtype} sample {r.sample} {r.tensor}" for far, r in beyond]
    return lines


def _of_dtype(groups: Mapping[Group, float], dtype: str) -> list[float]:
    return [ratio for group, ratio in groups.items() if group[1] == dtype]
