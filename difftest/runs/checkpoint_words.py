"""A comparison of two checkpoints in words, for a terminal."""

import math
from collections.abc import Iterator, Sequence

from difftest.runs.checkpoints import CheckpointComparison, WrongElement
from difftest.runs.comparison import EQUAL, UNDECIDED
from difftest.runs.words import columns

MOST_LINES = 12
"""How many tensors of a kind are printed."""


def verdict(comparison: CheckpointComparison) -> str:
    """The result in a sentence."""
    first, second = comparison.names
    if comparison.verdict == UNDECIDED:
        return f"{first} and {second} cannot be compared: they share no name; --name FIRST=SECOND maps names."
    if comparison.verdict == EQUAL:
        same = comparison.same == comparison.compared
        how = "bit-equal" if same else "equal within the rounding of one step"
        return f"{first} and {second} are {how} in all {comparison.compared:,} tensors."
    faults = [
        f"{len(comparison.wrong):,} of {comparison.compared:,} tensors differ" if comparison.wrong else "",
        *(
            f"{len(names):,} {'tensors are' if len(names) > 1 else 'tensor is'} only in {checkpoint}"
            for checkpoint, names in zip(comparison.names, comparison.missing, strict=True)
            if names
        ),
        f"{len(comparison.shapes):,} have another shape" if comparison.shapes else "",
        *(
            f"the ranks' copies of {len(names):,} differ in {checkpoint}"
            for checkpoint, names in zip(comparison.names, comparison.torn, strict=True)
            if names
        ),
    ]
    return f"{first} and {second} differ: {'; '.join(filter(None, faults))}."


def off(tensor: WrongElement, *, measured: bool) -> str:
    """A tensor that is wrong: how many elements, the farthest, and how much of the noise that is."""
    share = f" ({tensor.difference / tensor.norm:.1e} of its norm)" if tensor.norm else ""
    apart = (
        f"off by {tensor.difference:.3g}{share}" if math.isfinite(tensor.difference) else "not finite in one"
    )
    at = f" at ({', '.join(map(str, tensor.at))})" if tensor.at else ""
    greatest = f"greatest {tensor.greatest:.3g}{at}" if math.isfinite(tensor.greatest) else f"the first{at}"
    unit = "the noise of one step" if measured else "the bound of one step's rounding"
    times = f", {tensor.ratio:.2g} x {unit}" if math.isfinite(tensor.ratio) and tensor.ratio else ""
    percent = 100 * tensor.elements / tensor.of
    count = f"{tensor.elements:,} / {tensor.of:,} elements ({percent:.1f}%) differ"
    return f"{tensor.name}: {count}; {greatest}; {apart}{times}"


def lines(comparison: CheckpointComparison) -> Iterator[str]:
    """The comparison for a terminal: what differs beside the tensors, the verdict, the tensors."""
    if comparison.settings:
        yield from columns(comparison.names, comparison.settings[:MOST_LINES])
        yield from _rest(comparison.settings)
        yield ""
    yield verdict(comparison)
    yield from (f"  {off(tensor, measured=comparison.measured)}" for tensor in comparison.wrong[:MOST_LINES])
    yield from _rest(comparison.wrong)
    for pair in comparison.shapes[:MOST_LINES]:
        first, second = comparison.names
        yield f"  {pair.name}: shape {pair.first} in {first}, {pair.second} in {second}"
    yield from _rest(comparison.shapes)
    for which, name in enumerate(comparison.names):
        for words, names in (("only in", comparison.missing), ("copies differ in", comparison.torn)):
            yield from (f"  {words} {name}: {tensor}" for tensor in names[which][:MOST_LINES])
            yield from _rest(names[which])
    yield from _evidence(comparison)


def _rest(values: Sequence[object]) -> Iterator[str]:
    if len(values) > MOST_LINES:
        yield f"  ... {len(values) - MOST_LINES:,} more"


def _evidence(comparison: CheckpointComparison) -> Iterator[str]:
    """What the verdict rests on."""
    compared = f"{comparison.compared:,} tensors compared, {comparison.same:,} of them bit-equal"
    if comparison.same == comparison.compared:
        yield f"{compared}."
    elif comparison.measured:
        yield (
            f"{compared}; the farthest of those that agree is {comparison.greatest:.2g} x the noise off. The "
            "noise was measured."
        )
    else:
        yield (
            f"{compared}. The noise was not measured: there is only a bound of what rounding does in one "
            "step. Repeat a run with difftest.record(..., perturb=1) and give its checkpoint with --noise."
        )
    for name, count in zip(comparison.names, comparison.beside, strict=True):
        if count:
            yield f"{count:,} tensors beside the model in {name} were not compared."
    yield from comparison.notes
