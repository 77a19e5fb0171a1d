"""The noise floor: how far rounding alone may separate two correct computations of a tensor.

The oracle runs `SAMPLES` more times with every operation's rounding simulated (`workers.training.perturb`),
and once in the case's own dtype. The root mean square deviation of the simulated runs from the float64 run,
and the deviation of the run in the dtype, make the floor of each element. Errors are measured in units of
their floor.

The run in the dtype is needed because rounding to nearest is not random: over many steps its errors can add
up in one direction, where simulated ones cancel. (A run of 24 steps was 45 simulated floors off, on every
backend alike.)
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from difftest.judge.outcome import Sharded, Tensors, Trace

SAMPLES = 8
"""How many runs with simulated rounding an oracle's floor is made of."""

SAMPLES_WHEN_IN_DOUBT = 128
"""The number before a mismatch is believed: few samples may miss an update whose sign depends on rounding."""

SAMPLES_VARIABLE = "DIFFTEST_SAMPLES"
"""The environment variable of the oracle's process that sets the number of samples."""

SHARED_WEIGHT = 4.0
"""The weight of the tensor-wide floor, in samples: few samples can miss an element's own noise."""

UNIFORM = 3.0
"""The inverse of the variance of a number drawn uniformly from [-1, 1]."""

THRESHOLD = 10.0
"""The greatest error, in floors, that is still called rounding."""

FLOORS_MOST = 1e30
"""Stands for infinity and NaN in measurements, because JSON has neither."""


def spread(
    truth: Trace, samples: Sequence[Trace], native: Trace, roundoff: float
) -> tuple[tuple[Tensors, ...], float]:
    """By step and tensor, how far rounding moves each element of `truth`; and how far `native` is off.

    `samples` are runs with simulated rounding, `native` is one run in the dtype under test; all have the
    steps and tensors of `truth`. `roundoff` is the dtype's unit roundoff: no element's deviation is less than
    that of representing it. The second result is in units of the floor that `samples` alone give.
    """
    steps, greatest = list[Tensors](), 0.0
    for step, tensors in enumerate(truth.steps):
        deviations = {}
        for key, exact in tensors.items():
            simulated = _simulated(exact, [sample.steps[step][key] for sample in samples], roundoff)
            off = _moved(native.steps[step][key], exact)
            greatest = max(greatest, _farthest(off, simulated))
            deviations[key] = replace(exact, pieces={0: np.asarray(np.sqrt(simulated + off**2))})
        steps.append(deviations)
    return tuple(steps), greatest


def finite(trace: Trace, truth: Trace | None = None) -> bool:
    """Whether every value of a trace is finite; of a program, where `truth` has a finite value."""
    return all(
        bool(
            (
                np.isfinite(piece) | ~(np.isfinite(truth.steps[step][key].pieces[rank]) if truth else True)
            ).all()
        )
        for step, tensors in enumerate(trace.steps)
        for key, tensor in tensors.items()
        for rank, piece in tensor.pieces.items()
    )


def floor(deviation: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The floor of every element: its own deviation, drawn towards the root mean square of the whole tensor.

    Infinite where a deviation is infinite or NaN.
    """
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(deviation).all())  # looking first is much faster than replacing
        square = (deviation if finite else np.nan_to_num(deviation, nan=np.inf)) ** 2
    shared = square.mean() if square.size else 0.0
    return np.asarray(np.sqrt((SAMPLES * square + SHARED_WEIGHT * shared) / (SAMPLES + SHARED_WEIGHT)))


def in_floors(error: npt.NDArray[np.float64], floors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Absolute errors in units of the floor; where the floor is 0 (nothing rounds), any error is infinite."""
    magnitude = np.abs(error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where((magnitude == 0) | np.isinf(floors), 0.0, magnitude / floors)


def _farthest(off: npt.NDArray[np.float64], simulated: npt.NDArray[np.float64]) -> float:
    ratios = in_floors(off, floor(np.sqrt(simulated)))
    return float(np.nan_to_num(ratios, nan=0.0, posinf=FLOORS_MOST).max(initial=0.0))


def _simulated(truth: Sharded, samples: Sequence[Sharded], roundoff: float) -> npt.NDArray[np.float64]:
    """The variance of every element over the simulated runs, plus that of representing it.

    Integers, infinities and NaN are represented exactly.
    """
    exact = truth.pieces[0]
    moved = sum(_moved(sample, truth) ** 2 for sample in samples) / len(samples)
    if exact.dtype.kind != "f":
        return np.asarray(moved)
    represented = np.where(np.isfinite(exact), roundoff * exact, 0.0)
    return np.asarray(moved + represented**2 / UNIFORM)


def _moved(run: Sharded, truth: Sharded) -> npt.NDArray[np.float64]:
    """How far every element of `run` is from `truth`; 0 where both are NaN or the same infinity."""
    moved, exact = (np.asarray(tensor.pieces[0], dtype=np.float64) for tensor in (run, truth))
    with np.errstate(invalid="ignore"):
        same = (moved == exact) | (np.isnan(moved) & np.isnan(exact))
        return np.where(same, 0.0, moved - exact)
