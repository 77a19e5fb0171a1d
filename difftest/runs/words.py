"""A comparison of two runs in words: the verdict in a sentence, and the lines for a terminal."""

import math
from collections.abc import Iterator, Sequence

from difftest.runs.comparison import DATA, EQUAL, RunComparison, Setting, WrongTensor

STAGES = {
    "start": "before the first step",
    "output": "forward",
    "buffer": "forward",
    "loss": "forward",
    "output gradient": "backward",
    "gradient": "backward",
    "updated": "update",
    DATA: "data",
}
"""The stage of a step to which each kind of tensor belongs."""


def verdict(comparison: RunComparison) -> str:
    """The result in a sentence or two."""
    first, second = comparison.names
    if comparison.first:
        off = comparison.first
        return f"{first} and {second} differ from step {off.step} on, first in {off.tensor}."
    if comparison.verdict != EQUAL:
        why = (
            "nothing in them corresponds"
            if comparison.horizon is None
            else "rounding alone parts them from the start"
        )
        return f"{first} and {second} cannot be compared: {why}."
    if (until := comparison.horizon) is not None:
        return (
            f"{first} and {second} are equal within rounding up to step {until}. From there on rounding "
            "alone parts them, and they can no longer be compared."
        )
    return f"{first} and {second} are equal within rounding in all {comparison.steps} steps."


def evidence(comparison: RunComparison) -> str:
    """What the verdict rests on."""
    compared = f"{comparison.compared:,} tensors compared"
    if comparison.measured:
        farthest = f"; those that agree differ by at most {comparison.greatest:.2g} x the rounding noise"
        return compared + (farthest if comparison.compared else "") + ". The noise was measured."
    return (
        f"{compared}. The rounding noise was not measured, only bounded: smaller faults stay hidden. "
        "To measure it, repeat a run with difftest.record(..., perturb=1) and name its folder with --noise."
    )


def place(one: WrongTensor, *, measured: bool = True) -> str:
    """The first place that differs: step, stage, tensor, and by how much of the noise or of its bound."""
    parts = [f"step {one.step}, {STAGES[one.kind]}: {one.tensor}"]
    if one.difference:
        share = f" ({one.difference / one.norm:.1e} of its norm)" if one.norm else ""
        off = (
            f"off by {one.difference:.3g}{share}"
            if math.isfinite(one.difference)
            else "not finite in one run"
        )
        times = f", {one.ratio:.2g} x" if math.isfinite(one.ratio) and one.ratio else ""
        unit = " the rounding noise" if measured else " the bound of rounding"
        parts.append(off + times + (unit if times else ""))
    if one.share:
        parts.append(one.share)
    if one.users:
        parts.append(f"computed in the backward pass of {', '.join(one.users)}")
    return "; ".join(parts)


def follows(comparison: RunComparison) -> str:
    """What differs in that step by kind; empty if nothing does but data."""
    names = {
        "start": "parameters before the first step",
        "output": "outputs",
        "buffer": "values of buffers",
        "output gradient": "gradients of outputs",
        "gradient": "gradients of parameters",
        "updated": "updated parameters",
    }
    counts = [f"{names[kind]}: {count}" for kind, count in comparison.wrong.items()]
    return f"differing in that step: {', '.join(counts)}" if counts else ""


def lines(comparison: RunComparison) -> Iterator[str]:
    """The comparison for a terminal: what differs around the runs, the verdict, the place, the hints."""
    if comparison.settings:
        yield from table(comparison)
        yield ""
    yield verdict(comparison)
    if comparison.first:
        yield f"  {place(comparison.first, measured=comparison.measured)}"
        if comparison.first.before:
            yield f"  still equal before it: {comparison.first.before}"
        if rest := follows(comparison):
            yield f"  {rest}"
    yield from (f"  hint: {hint}" for hint in comparison.hints)
    if not (comparison.first and comparison.first.kind == DATA):
        yield evidence(comparison)
    for reason, count in comparison.skipped.items():
        yield f"{count:,} tensors were not compared: {reason}."
    yield from comparison.notes


def table(comparison: RunComparison) -> Iterator[str]:
    """What differs between the runs besides their numbers, in three columns."""
    yield from columns(comparison.names, grouped(comparison.settings))


def grouped(settings: Sequence[Setting]) -> list[Setting]:
    """The settings; modules of one class that differ alike are one: `norm and 2 more (LayerNorm)`."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for setting in settings:
        path, of_module, kind = setting.name.rpartition(" (")
        key = (kind if of_module else setting.name, setting.first, setting.second)
        alike.setdefault(key, []).append(path)
    rows = []
    for (kind, first, second), (path, *more) in alike.items():
        others = f" and {len(more)} more" if more else ""
        rows.append(Setting(name=f"{path}{others} ({kind}" if path else kind, first=first, second=second))
    return rows


def columns(names: tuple[str, str], settings: Sequence[Setting]) -> Iterator[str]:
    """Settings in three columns, below the names of both."""
    rows = [names, *((setting.name, setting.first, setting.second) for setting in settings)]
    (first, second), *below = (tuple(_cut(text) for text in row) for row in rows)
    cut = [("", first, second), *below]
    widths = [max(len(row[column]) for row in cut) for column in range(3)]
    for row in cut:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _cut(text: str, most: int = 48) -> str:
    """A text that fits a column."""
    flat = " ".join(text.split()) or "-"
    return flat if len(flat) <= most else flat[: most - 3] + "..."
