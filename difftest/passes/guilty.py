"""The first pass after which a module computes other numbers than before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from difftest.ground.errors import UsageError
from difftest.passes.arrays import ROUNDOFF, dtype_of
from difftest.passes.evaluate import evaluate
from difftest.passes.hlo import HloModule, Shape, UnreadableError
from difftest.passes.shardings import HloSharding, arguments_of, results_of
from difftest.passes.snapshots import Dump, Snapshot, guilty_name
from difftest.records.evidence import NO_PASS

Array: TypeAlias = NDArray[Any]

MOST_ROUNDOFFS = 64
"""A result is wrong beyond this many unit roundoffs of its greatest element ..."""

STRICT_ROUNDOFFS = 2
"""The same where a smaller error is looked for, and zeros must have the right sign."""

MOST_NOISE = 8
"""... and this many times the noise that its inputs' roundoffs make."""

PERTURBATIONS = 3
"""How often the inputs are perturbed by their roundoff to measure that noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRun:
    """A run of a module: its arguments and, where the frontend gave them, its results, whole arrays."""

    arguments: tuple[Array, ...]
    results: tuple[Array, ...] = ()
    numbers: str = "its own numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which pass is at fault.

    `kind` is `pass`, `crash` (the pass did not end), `code generation` (wrong after the last pass),
    `frontend` (XLA computes what it was given) or `unclear`. `reason` says it in a sentence, and `control`
    what was right. `compiled` is the name of the module, `before` is right and `after` is wrong. `evaluated`
    of `snapshots` were evaluated.
    """

    kind: str
    reason: str
    guilty: str = ""
    pipeline: str = ""
    compiled: str = ""
    before: Snapshot | None = None
    after: Snapshot | None = None
    call: ModuleRun | None = None
    expected: tuple[Array, ...] = ()
    actual: tuple[Array, ...] = ()
    evaluated: int = 0
    snapshots: int = 0
    control: str = ""

    @property
    def accuses(self) -> bool:
        """Whether XLA is at fault."""
        return self.kind not in NO_PASS

    @property
    def name(self) -> str:
        """What lists of faults call it: the pass, or what is at fault instead."""
        return self.guilty or self.kind


def judge(dump: Dump, calls: Sequence[ModuleRun], *, strict: bool = False) -> Verdict:
    """The verdict about a module: that of the first call on which its passes disagree.

    It is `strict` about single roundoffs and the signs of zeros. Only numbers of XLA's own accuse then: a
    snapshot must have exactly these.
    """
    verdicts = list[Verdict]()
    for call in calls:
        verdicts.append(_judge(dump, call, strict=strict))
        if verdicts[-1].accuses:
            return verdicts[-1]
    decided = [each for each in verdicts if each.kind != "unclear"]
    return (decided or verdicts or [Verdict(kind="unclear", reason="there are no numbers to run it on")])[0]


UNEVALUATED = (UsageError, ArithmeticError, ValueError, IndexError, TypeError, KeyError)
"""What an evaluation raises that cannot be done."""


def _judge(dump: Dump, call: ModuleRun, *, strict: bool) -> Verdict:
    given: dict[str, Any] = {"compiled": dump.name, "call": call, "snapshots": len(dump.snapshots)}
    try:
        truth = _Truth.of(dump.first, call, strict=strict)
    except UNEVALUATED as error:
        return Verdict(kind="unclear", reason=f"the first module cannot be evaluated: {error}", **given)
    given["expected"] = truth.expected
    is_wrong = bool(call.results) and truth.differs([[result] for result in call.results])
    if not is_wrong and (call.results or strict):
        reason = f"with {call.numbers}, XLA computes what the first module says"
        return Verdict(kind="frontend", reason=reason, actual=call.results, **given)
    return _search(dump, call, truth, given)


def _search(dump: Dump, call: ModuleRun, truth: "_Truth", given: Mapping[str, Any]) -> Verdict:
    """The first snapshot that is wrong, after one that is right."""
    right, evaluated, unread, layout = dump.first, 0, list[str](), EntryLayout()
    for snapshot in dump.snapshots:
        layout = layout.at(snapshot)
        try:
            made = layout.results(snapshot, call.arguments, truth.shapes)
        except UNEVALUATED as error:
            unread.append(f"{snapshot.file}: {error}")
            continue
        evaluated += 1
        if truth.differs(made):
            if snapshot is dump.first:
                reason = "evaluated in its own precision, the first module is wrong already"
                return Verdict(kind="unclear", reason=reason, evaluated=1, **given)
            return _accused(right, snapshot, made, evaluated, unread, given)
        right, unread = snapshot, []
    but = f"; not evaluated: {unread[0]}" if unread else ""
    if call.results:  # which are wrong
        reason = f"after the last pass the module is right, and what XLA made of it is not{but}"
        kind = "unclear" if unread else "code generation"
        return Verdict(kind=kind, reason=reason, **{**given, "actual": call.results, "evaluated": evaluated})
    reason = f"with {call.numbers}, no pass changes the result{but}"
    return Verdict(kind="unclear" if unread else "frontend", reason=reason, evaluated=evaluated, **given)


def _accused(  # noqa: PLR0913, PLR0917  what a verdict holds
    right: Snapshot,
    wrong: Snapshot,
    made: Sequence[Sequence[Array]],
    evaluated: int,
    unread: Sequence[str],
    given: Mapping[str, Any],
) -> Verdict:
    """The verdict about the pass between two snapshots; those between them were not evaluated."""
    call, actual = given["call"], tuple(each[0] for each in made)
    name = guilty_name(right, wrong)
    control = f"with {call.numbers}, the module is right after {right.after or 'the frontend'}"
    same = bool(call.results) and all(map(_close, actual, call.results))
    if call.results:
        control += f", and the wrong numbers are {'the same as' if same else 'others than'} XLA's own"
    between = f", or a pass before it: {unread[0]}" if unread else ""
    return Verdict(
        kind="unclear" if unread else "pass",
        reason=f"the module is right before {name} and wrong after it{between}",
        guilty="" if unread else name,
        pipeline=wrong.pipeline,
        before=right,
        after=wrong,
        actual=actual,
        evaluated=evaluated,
        control=control,
        **given,
    )


def _close(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool(
        np.allclose(first.astype(complex), second.astype(complex), rtol=1e-3, atol=1e-5, equal_nan=True)
    )


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """How the entry's parameters and results are cut, as of the last snapshot that has them whole."""

    inputs: tuple[HloSharding, ...] = ()
    outputs: tuple[HloSharding, ...] = ()
    whole: tuple[tuple[int, ...], ...] = ()

    def at(self, snapshot: Snapshot) -> "EntryLayout":
        """The layout after another snapshot: its shardings, while its parameters and results are whole."""
        try:
            entry = snapshot.module.entry
            parts = entry.result.shape.parts or (entry.result.shape,)
            dims = (*(parameter.shape.dims for parameter in entry.parameters), *(part.dims for part in parts))
            if self.whole and (dims != self.whole or not _says(snapshot)):
                return self
            return EntryLayout(snapshot.inputs, snapshot.outputs, dims)
        except UnreadableError:
            return self

    def results(
        self, snapshot: Snapshot, arguments: Sequence[Array], shapes: Sequence[Shape]
    ) -> list[list[Array]]:
        """The results of a snapshot, each once for every copy."""
        module = snapshot.module
        held = [
            each.astype(dtype_of(p.shape.type, wide=False))
            for each, p in zip(arguments, module.entry.parameters, strict=True)
        ]
        made = evaluate(module, arguments_of(module, held, self.inputs))
        return results_of(module, made, shapes, self.outputs)


def _says(snapshot: Snapshot) -> bool:
    """Whether the entry says how anything is sharded."""
    entry = snapshot.module.entry
    return any("sharding" in parameter.attributes for parameter in (*entry.parameters, entry.result))


@dataclass(frozen=True, slots=True)
class _Truth:
    """The right results of a call in greater precision, and how far each may be off."""

    expected: tuple[Array, ...]
    tolerances: tuple[float, ...]
    shapes: tuple[Shape, ...]
    signed: bool = False

    @classmethod
    def of(cls, first: Snapshot, call: ModuleRun, *, strict: bool) -> "_Truth":
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
    held = [
        each.astype(dtype_of(parameter.shape.type, wide=wide))
        for each, parameter in zip(arguments, module.entry.parameters, strict=True)
    ]
    made = evaluate(module, [[each] for each in held], wide=wide)[0]
    return list(made) if isinstance(made, tuple) else [made]


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


REGIMES = ("ordinary numbers", "numbers of which some are not finite", "large numbers")
"""The numbers on which a module runs whose own are not at hand, in this order."""


def drawn(module: HloModule) -> Iterator[ModuleRun]:
    """Calls of a module with numbers of each of `REGIMES`."""
    for regime in REGIMES:
        random = np.random.default_rng(len(module.entry.parameters))
        arguments = tuple(_draw(parameter.shape, regime, random) for parameter in module.entry.parameters)
        yield ModuleRun(arguments=arguments, numbers=regime)


def _draw(shape: Shape, regime: str, random: np.random.Generator) -> Array:
    dtype = dtype_of(shape.type, wide=False)
    if dtype.kind in "iub":  # as an index, beyond most dims in the second regime
        most = 9 if regime == REGIMES[1] and dtype.kind != "b" else 2
        return np.asarray(random.integers(0, most, shape.dims)).astype(dtype)
    plain = random.normal(size=shape.dims)
    if regime == REGIMES[1]:
        plain = np.where(random.random(shape.dims) < 0.2, random.choice([np.nan, np.inf, -np.inf]), plain)  # noqa: PLR2004  a fifth
    elif regime == REGIMES[2]:
        plain = 1000 + plain
    return np.asarray(plain).astype(dtype)
