"""The sweep: errors of known sizes in correct results, to see from which size on they are detected."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from difftest.cases.layout import Mesh
from difftest.judge import noise
from difftest.judge.measured import Floats, Key, beyond, measure
from difftest.judge.outcome import Trace

SWEPT = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Sizes of the sweep, in units of the rounding noise."""


def sweep(truth: Trace, mesh: Mesh, count: int, seed: int) -> Iterator[tuple[float, bool]]:
    """Errors by size, in units of the rounding noise, and whether each is detected.

    For every size in `SWEPT`, `count` random tensors of `truth` get an error in one random element. There are
    no errors where no tensor has elements that round, as in some operator programs.
    """
    random = np.random.default_rng(seed)
    tensors = [
        (step, key)
        for step, named in enumerate(truth.steps)
        for key, tensor in named.items()
        if math.prod(tensor.shape) and not tensor.is_discrete
    ]
    for size in SWEPT if tensors else ():
        for _ in range(count):
            step, key = tensors[random.integers(len(tensors))]
            value, deviation = truth.steps[step][key].full(mesh), truth.noise[step][key].full(mesh)
            yield size, _detected(value, deviation, (step, *key), size, random)


def detection_curve(errors: Iterable[tuple[float, bool]]) -> dict[float, float]:
    """The share of errors that is detected, by size in units of the rounding noise."""
    by_size: dict[float, list[bool]] = {}
    for size, detected in errors:
        by_size.setdefault(size, []).append(detected)
    return {size: sum(detected) / len(detected) for size, detected in by_size.items()}


def _detected(value: Floats, deviation: Floats, at: Key, size: float, random: np.random.Generator) -> bool:
    """Whether an error of `size` is detected in one random element, beside rounding noise in all of them."""
    floors = noise.floor(deviation)
    wrong = np.asarray(value + random.normal(size=value.shape) * deviation)
    place = tuple(random.integers(n) for n in value.shape)
    wrong[place] = value[place] + size * floors[place] * random.choice((-1.0, 1.0))
    return beyond(measure(at, value, deviation, wrong))
