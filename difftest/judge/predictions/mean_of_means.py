"""A mean over unequal shards is the mean of the ranks' means: each rank counts alike, whatever it holds.

What is averaged is not computed here. Averages of numbers lie between the least and the greatest of them. The
mean of losses, which are not negative, is off by a factor at most: that of the ranks with the fewest and the
most elements.
"""

import math

import numpy as np

from difftest.cases.layers.operator import full_name
from difftest.cases.layout import local_slices
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

AVERAGES = ("mean", "nn.functional.adaptive_avg_pool")
"""What averages its input itself."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether a result of a program can be a mean of the means of unequal shards."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.FORWARD or not call or not (tensors := list(call.tensors())):
        return False
    truth, floors, value = _calls.compared(run, at)
    decided = np.isfinite(floors)
    room = _calls.RELATIVE * _calls.roundoff(run)
    if call.function.startswith(AVERAGES):
        least, most = (
            float(one) for one in (tensors[0].min(initial=np.inf), tensors[0].max(initial=-np.inf))
        )
        width = room * max(abs(least), abs(most))
        return bool((~decided | ((value >= least - width) & (value <= most + width))).all())
    least, most = _factors(run, call)
    if truth.size != 1 or not least or not truth.all():
        return False
    ratio = float((value / truth).item())
    return least * (1.0 - room) <= ratio <= most * (1.0 + room)


def _factors(run: MeasuredRun, call: "_calls.Call") -> tuple[float, float]:
    """The least and the greatest factor by which a mean of losses is off; 0 where no operand is cut so."""
    layout, factors = run.case.layout, list[float]()
    for reference in call.layer.references():
        name = full_name(call.path, reference)
        if (shape := run.case.model.tensors().get(name)) is None:
            continue
        cuts = (
            local_slices(shape, layout.parameters[name], layout.mesh, rank)
            for rank in range(layout.mesh.world_size)
        )
        sizes = [math.prod(part.stop - part.start for part in cut) for cut in cuts]
        if min(sizes) and min(sizes) < max(sizes):
            average = sum(sizes) / len(sizes)
            factors += [average / max(sizes), average / min(sizes)]
    return (min(factors), max(factors)) if factors else (0.0, 0.0)
