"""The noise floor: how far apart rounding alone may put two correct computations of a tensor.

The oracle is run `SAMPLES` more times with every operation's rounding simulated (`workers.perturb`). The root mean square
deviation of those runs from the unperturbed one is each element's floor; errors are counted in floors.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from difftest.outcome import Sharded, Tensors, Trace

SAMPLES = 8

SHARED_WEIGHT = 4.0
"""How many samples' worth of belief the tensor-wide floor has against an element's own: few samples can miss an element's noise."""

THRESHOLD = 32.0
"""The greatest error, in floors, that is still called rounding."""


def spread(truth: Trace, samples: Sequence[Trace]) -> tuple[Tensors, ...]:
    """Per step and tensor, the root mean square deviation of `samples` from `truth`, element by element."""
    return tuple(
        {key: _deviation(tensor, [sample.steps[index][key] for sample in samples]) for key, tensor in step.items()}
        for index, step in enumerate(truth.steps)
    )


def floor(deviation: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The floor of every element: its own deviation, drawn towards the whole tensor's root mean square."""
    with np.errstate(over="ignore"):
        square = np.where(np.isfinite(deviation), deviation, 0.0) ** 2
    shared = square.mean() if square.size else 0.0
    return np.asarray(np.sqrt((SAMPLES * square + SHARED_WEIGHT * shared) / (SAMPLES + SHARED_WEIGHT)))


def in_floors(error: npt.NDArray[np.float64], floors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Absolute errors in units of the floor; where the floor is 0 (nothing rounds), any error is infinitely many."""
    magnitude = np.abs(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(magnitude == 0, 0.0, magnitude / floors)


def _deviation(truth: Sharded, samples: Sequence[Sharded]) -> Sharded:
    exact = truth.pieces[0]
    square = sum((sample.pieces[0] - exact) ** 2 for sample in samples)
    pieces = {0: np.sqrt(np.asarray(square) / len(samples))}
    return Sharded(shape=truth.shape, dtype=truth.dtype, placements=truth.placements, pieces=pieces)
