"""The right results of a module, and how far those of a later one may be off."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from difftest.passes.arrays import ROUNDOFF, Array, dtype_of
from difftest.passes.evaluate import evaluate
from difftest.passes.hlo import HloModule, Shape
from difftest.passes.module_runs import ModuleRun
from difftest.passes.snapshots import Snapshot

MOST_ROUNDOFFS = 64
"""A result is wrong beyond this many unit roundoffs of its greatest element ..."""

STRICT_ROUNDOFFS = 2
"""The same where a smaller error is looked for, and zeros must have the right sign."""

MOST_NOISE = 8
"""... and this many times the noise that its inputs' roundoffs make."""

PERTURBATIONS = 3
"""How often the inputs are perturbed by their roundoff to measure that noise."""


@dataclass(frozen=True, slots=True)
class RightResults:
    """The right results of a call in greater precision, and how far each may be off."""

    expected: tuple[Array, ...]
    tolerances: tuple[float, ...]
    shapes: tuple[Shape, ...]
    signed: bool = False

    @classmethod
    def of(cls, first: Snapshot, call: ModuleRun, *, strict: bool) -> "RightResults":
        """Those of the module as the frontend wrote it, on one device."""
        module = first.module.on_one_device
        parts = module.entry.result.shape.parts or (module.entry.result.shape,)
        expected = _alone(module, call.arguments, wide=True)
        noise = [0.0] * len(expected)
        for arguments in _perturbed(module, call.arguments):
            for at, value in enumerate(_alone(module, arguments, wide=False)):
                noise[at] = max(noise[at], _greatest(value, expected[at]))
        most = STRICT_ROUNDOFFS if strict else MOST_ROUNDOFFS
        tolerances = tuple(
            most * ROUNDOFF.get(part.type, 2.0**-53) * _size(value) + MOST_NOISE * spread
            for part, value, spread in zip(parts, expected, noise, strict=True)
        )
        return cls(tuple(expected), tolerances, tuple(parts), signed=strict)

    def differs(self, results: Sequence[Sequence[Array]]) -> bool:
        """Whether a copy of a result is beyond the tolerance, or not finite where the right one is."""
        return any(
            not _within(copy, expected, tolerance, signed=self.signed)
            for copies, expected, tolerance in zip(results, self.expected, self.tolerances, strict=True)
            for copy in copies
        )


def _alone(module: HloModule, arguments: Sequence[Array], *, wide: bool) -> list[Array]:
    typed = [
        each.astype(dtype_of(parameter.shape.type, wide=wide))
        for each, parameter in zip(arguments, module.entry.parameters, strict=True)
    ]
    results = evaluate(module, [[each] for each in typed], wide=wide)[0]
    return list(results) if isinstance(results, tuple) else [results]


def _perturbed(module: HloModule, arguments: Sequence[Array]) -> Iterator[list[Array]]:
    """The arguments, and the same with roundoffs in numbers that are no integers."""
    yield list(arguments)
    random = np.random.default_rng(0)
    for _ in range(PERTURBATIONS):
        moved = list[Array]()
        for each, parameter in zip(arguments, module.entry.parameters, strict=True):
            if each.dtype.kind != "f":
                moved.append(each)
                continue
            roundoff = ROUNDOFF.get(parameter.shape.type, 2.0**-53)
            by = np.where(each == np.rint(each), 0, random.choice([-1.0, 1.0], each.shape)) * roundoff
            moved.append(np.asarray(each * (1 + by)))
        yield moved


def _greatest(value: Array, expected: Array) -> float:
    """The greatest difference between finite elements."""
    finite = np.isfinite(expected) & np.isfinite(value)
    differences = (
        np.abs(value[finite].astype(expected.dtype) - expected[finite]) if expected.dtype.kind != "b" else []
    )
    return float(np.max(differences)) if len(differences) else 0.0


def _size(value: Array) -> float:
    finite = value[np.isfinite(value)]
    return float(np.max(np.abs(finite))) if finite.size and value.dtype.kind in "fc" else 0.0


def _within(value: Array, expected: Array, tolerance: float, *, signed: bool) -> bool:
    if value.shape != expected.shape:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(value, expected))
    narrow = expected.astype(value.dtype)
    finite = np.isfinite(narrow)
    rest = np.array_equal(value[~finite], narrow[~finite], equal_nan=True)
    difference = np.abs(value[finite].astype(expected.dtype) - expected[finite])
    if signed and value.dtype.kind == "f" and (np.signbit(value) != np.signbit(narrow))[narrow == 0].any():
        return False
    return bool(rest and np.all(difference <= tolerance))
