"""An RMS norm over a dim that the ranks share unevenly takes the mean of the ranks' means.

Each rank counts alike, whatever it holds, so that every row of the norm's result is too large or too small by
a factor, which the sizes of the pieces bound. Linear layers without biases behind it keep the factor. Behind
others the error of the output is bounded alone.

Gradients are not computed here. They can be wrong by this fault where the output of their step shows it,
within its rounding noise or beyond.
"""

import itertools
import math

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Shard, local_slices
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.stage import Stage

SHOWN = 3.0
"""From how many times the rounding noise on an output shows that its rows have a factor."""

BEHIND = 2.0
"""How many times the greatest error of the norm's rows an output behind other layers may be off."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the output of the step, and with it the tensor, can be that of such a norm."""
    factors = _factors(run.case)
    output = (at[0], Stage.FORWARD, "output")
    if not factors or output not in run.measured or not (at == output or at[1] is Stage.BACKWARD):
        return False
    truth, floors, actual = run.beside(output)
    value = actual.full(run.case.layout.mesh)
    if not np.isfinite(value).all():
        return False
    if _keeps_factors(run.case):
        return _has_factors(truth, floors, value, factors)
    most = BEHIND * max(factors[1] - 1.0, 1.0 - factors[0])
    return at == output and float(np.abs(value - truth).max()) <= most * float(np.sqrt(np.mean(truth**2)))


def _has_factors(truth: Floats, floors: Floats, value: Floats, factors: tuple[float, float]) -> bool:
    """Whether the rows of `value` are those of `truth` times factors within the bounds, and not `truth`."""
    weight = np.where(floors > 0.0, floors, np.inf) ** -2.0
    norm = np.sum(weight * truth**2, axis=-1, keepdims=True)
    fitted = np.sum(weight * truth * value, axis=-1, keepdims=True) / np.where(norm > 0.0, norm, 1.0)
    scaled = truth * np.clip(fitted, *factors)
    off, left = (np.abs(value - one) for one in (truth, scaled))
    return bool((left <= THRESHOLD / SHOWN * floors).all() and (off > SHOWN * floors).any())


def _factors(case: Case) -> tuple[float, float] | None:
    """The bounds of the factors by which rows of the last RMS norm may be off; None if none may be."""
    norms = [path for path, layer in walk(case.model.layers) if isinstance(layer, RMSNorm)]
    if case.model.is_program or not norms:
        return None
    name = f"{norms[-1]}.weight"
    placements, layout = case.layout.parameters[name], case.layout
    if not any(isinstance(placement, Shard) for placement in placements):
        return None
    (width,) = case.model.parameters()[name]
    ranks = range(layout.mesh.world_size)
    cuts = [local_slices((width,), placements, layout.mesh, rank)[0] for rank in ranks]
    sizes = [cut.stop - cut.start for cut in cuts]
    average = width / len({(cut.start, cut.stop) for cut in cuts})
    if not min(sizes) or min(sizes) == max(sizes):
        return None
    return math.sqrt(min(sizes) / average), math.sqrt(max(sizes) / average)


def _keeps_factors(case: Case) -> bool:
    """Whether nothing but linear layers without biases is behind the last layer that is an RMS norm."""
    behind = itertools.takewhile(lambda layer: not isinstance(layer, RMSNorm), reversed(case.model.layers))
    return all(isinstance(layer, Linear) and not layer.bias for layer in behind)
