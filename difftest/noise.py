"""The noise floor: how far apart rounding alone may put two correct computations of a tensor.

The oracle is run `SAMPLES` more times with every operation's rounding simulated (`workers.perturb`), and once in the case's own
dtype. The root mean square deviation of the simulated runs from the float64 one, and the deviation of the real one beside it,
make each element's floor; errors are counted in floors.

The real one is needed because rounding to nearest is not random: over many steps its errors can add up in one direction, where
simulated ones cancel. (A 24-step run was 45 simulated floors off on every backend alike.)
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from difftest.outcome import Sharded, Stage, Tensors, Trace

SAMPLES = 8
SAMPLES_WHEN_IN_DOUBT = 128
"""So many before a mismatch is believed: an optimizer step that changes sign with the rounding may hide from a few samples."""

SAMPLES_VARIABLE = "DIFFTEST_SAMPLES"
"""The environment variable of the oracle's process that sets how many."""

SHARED_WEIGHT = 4.0
"""How many samples' worth of belief the tensor-wide floor has against an element's own: few samples can miss an element's noise."""

UNIFORM = 3.0
"""The variance of a number drawn evenly from [-1, 1] is one over this."""

THRESHOLD = 10.0
"""The greatest error, in floors, that is still called rounding."""

FLOORS_MOST = 1e30
"""Stands for infinity and NaN in measurements: "infinitely many floors" in files, which know no infinity."""


def spread(truth: Trace, samples: Sequence[Trace], native: Trace, roundoff: float) -> tuple[Tensors, ...]:
    """Per step and tensor, how far rounding moves each element of `truth`.

    `samples` are runs with simulated rounding, `native` one run in the dtype under test; all have the steps and tensors of `truth`.
    `roundoff` is the dtype's unit roundoff: no element's deviation is less than that of representing it.
    """

    def deviation(step: int, key: tuple[Stage, str], exact: Sharded) -> Sharded:
        return _deviation(exact, [sample.steps[step][key] for sample in samples], native.steps[step][key], roundoff)

    return tuple({key: deviation(step, key, exact) for key, exact in tensors.items()} for step, tensors in enumerate(truth.steps))


def farthest(truth: Trace, samples: Sequence[Trace], native: Trace, roundoff: float) -> float:
    """The greatest error of `native`, in floors that the simulated runs alone give; arguments as for `spread`."""
    greatest = 0.0
    for step, tensors in enumerate(truth.steps):
        for key, exact in tensors.items():
            floors = floor(np.sqrt(_simulated(exact, [sample.steps[step][key] for sample in samples], roundoff)))
            ratios = in_floors(native.steps[step][key].pieces[0] - exact.pieces[0], floors)
            greatest = max(greatest, float(np.nan_to_num(ratios, nan=0.0, posinf=FLOORS_MOST).max(initial=0.0)))
    return greatest


def finite(trace: Trace) -> bool:
    """Whether every value of a trace is finite."""
    return all(bool(np.isfinite(piece).all()) for step in trace.steps for tensor in step.values() for piece in tensor.pieces.values())


def floor(deviation: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The floor of every element: its own deviation, drawn towards the whole tensor's root mean square; infinite where that is."""
    with np.errstate(over="ignore"):
        square = np.nan_to_num(deviation, nan=np.inf) ** 2
    shared = square.mean() if square.size else 0.0
    return np.asarray(np.sqrt((SAMPLES * square + SHARED_WEIGHT * shared) / (SAMPLES + SHARED_WEIGHT)))


def in_floors(error: npt.NDArray[np.float64], floors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Absolute errors in units of the floor; where the floor is 0 (nothing rounds), any error is infinitely many."""
    magnitude = np.abs(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((magnitude == 0) | np.isinf(floors), 0.0, magnitude / floors)


def _deviation(truth: Sharded, samples: Sequence[Sharded], native: Sharded, roundoff: float) -> Sharded:
    off = native.pieces[0] - truth.pieces[0]
    pieces = {0: np.asarray(np.sqrt(_simulated(truth, samples, roundoff) + off**2))}
    return Sharded(shape=truth.shape, dtype=truth.dtype, placements=truth.placements, pieces=pieces)


def _simulated(truth: Sharded, samples: Sequence[Sharded], roundoff: float) -> npt.NDArray[np.float64]:
    """The variance of every element over the simulated runs, with that of representing it."""
    exact = truth.pieces[0]
    moved = sum((sample.pieces[0] - exact) ** 2 for sample in samples) / len(samples)
    return np.asarray(moved + (roundoff * exact) ** 2 / UNIFORM)
