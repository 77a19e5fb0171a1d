"""The service measured on itself: how surely planted defects are found and blamed, and how often correct runs are not believed.

Pure functions over outcomes; `difftest.commands.selftest` runs the workers.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from difftest.judge import checks, noise
from difftest.judge.comparator import Comparison, compare
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Floats, Key, beyond, measure
from difftest.judge.outcome import Failure, Outcome, Trace

DETECTED_LEAST = 0.95
BLAMED_LEAST = 0.90
TOLD_APART_LEAST = 0.95
"""The least purity and completeness of fingerprints (`identity`), of at least `MANY` defects."""

MANY = 20
"""Of fewer defects one that shares its fingerprint outweighs any bar."""
WORTH_FINDING = 10.0
"""Defects whose effect is smaller, in floors, are not held against the service."""

REAL_FLOORS = 1000.0
"""No rounding reaches this: a run so far off, in every variant alike, has a fault of its own, which the null campaign lists apart.

A lesser one is the backend's own only where the ledger knows it, which a person wrote after looking at it; all others count as false.
"""

SWEPT = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Sizes of the sweep, in floors."""


Known: TypeAlias = Callable[[Divergence], object]
"""Tells what is known of a divergence; nothing where it is new."""


def nothing_known(_divergence: Divergence) -> object:
    """As if nobody had reported anything yet."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One defect on one backend.

    `cases` counts generated cases until it was detected (or all that were tried), and `seconds` is the wall time of that, other defects
    being looked for beside it; `floors` is its effect where measured, and None also where no case could show it. `hits` are path and
    fingerprint of every case that showed it, some more than the first.
    """

    defect: str
    backend: str
    detected: bool
    cases: int
    expected_blame: str
    blame: str = ""
    symptom: str = ""
    floors: float | None = None
    seconds: float = 0.0
    hits: tuple[tuple[str, str], ...] = ()

    @property
    def blamed(self) -> bool:
        """Whether the verdict names the right kind of fault on the right side."""
        return self.blame == self.expected_blame


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """One run held against the oracle and against legal variants of itself.

    `false` says what would wrongly have been reported; `own` names the upstream fault of a run that was not correct to begin with.
    `seconds` is the wall time of the plain run, `oracle_seconds` that of the oracle with all its simulated runs.
    """

    case: str
    path: str
    backend: str
    dtype: str
    optimizer: str
    variants: int
    ratio: float
    deterministic: bool
    seconds: float = 0.0
    oracle_seconds: float = 0.0
    false: tuple[str, ...] = ()
    own: str = ""


def planted_summary(results: Sequence[Planted]) -> dict[str, Any]:
    """Rates over the defects worth finding, and every defect by itself."""
    counted = [r for r in results if r.floors is None or r.floors >= WORTH_FINDING]
    found = [r for r in counted if r.detected]
    return {
        "defects": len(results),
        "detected": sum(r.detected for r in results),
        "detection_rate": len(found) / len(counted) if counted else 0.0,
        "blame_rate": sum(r.blamed for r in found) / len(found) if found else 0.0,
        "median_cases": statistics.median(r.cases for r in found) if found else None,
        "fingerprints": identity(results),
        "by_defect": [asdict(r) | {"blamed": r.blamed} for r in results],
    }


def identity(results: Iterable[Planted]) -> dict[str, Any]:
    """Whether fingerprints are causes.

    `purity` is the share of fingerprints that one defect alone has, `completeness` the share of defects, each on one backend and path, that
    have one fingerprint alone; None where nothing was hit. `merged` and `split` name the others.
    """
    causes: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for result in results:
        for path, fingerprint in result.hits:
            causes.setdefault(fingerprint, set()).add(result.defect)
            names.setdefault(f"{result.defect} on {result.backend}, {path}", set()).add(fingerprint)
    merged = {fingerprint: sorted(found) for fingerprint, found in causes.items() if len(found) > 1}
    split = {where: sorted(found) for where, found in names.items() if len(found) > 1}
    return {
        "purity": 1 - len(merged) / len(causes) if causes else None,
        "completeness": 1 - len(split) / len(names) if names else None,
        "merged": merged,
        "split": split,
    }


def passed(told: Mapping[str, Any]) -> bool:
    """Whether every rate reaches its bar."""
    planted, nothing = told.get("planted"), told.get("null")
    found = planted is None or (
        planted["detection_rate"] >= DETECTED_LEAST and planted["blame_rate"] >= BLAMED_LEAST
    )
    return found and _told_apart(planted) and (nothing is None or nothing["false_findings"] == 0)


def _told_apart(planted: Mapping[str, Any] | None) -> bool:
    if planted is None or planted["defects"] < MANY:
        return True
    return all(
        (planted["fingerprints"][rate] or 0.0) >= TOLD_APART_LEAST for rate in ("purity", "completeness")
    )


def null_summary(results: Sequence[Null], cost_units: Collection[str] = ()) -> dict[str, Any]:
    """How many runs were held against their variants, and what would wrongly have been reported.

    The oracle's cost is given in units of the runs of the backends in `cost_units`.
    """
    ratios = sorted(r.ratio for r in results) or [0.0]
    return {
        "cases": len({r.case for r in results}),
        "runs": len(results),
        "false_findings": sum(bool(r.false) for r in results),
        "greatest_ratio": ratios[-1],
        "beyond": {size: sum(ratio > size for ratio in ratios) / len(ratios) for size in SWEPT},
        "ratio_quantiles": {str(q): float(np.quantile(ratios, q)) for q in (0.5, 0.9, 0.99, 0.999)},
        "oracle_cost": _oracle_cost(results, cost_units),
        "not_deterministic": sum(not r.deterministic for r in results),
        "upstream_faults": dict(Counter(r.own for r in results if r.own)),
        "by_false_finding": [asdict(r) for r in results if r.false],
    }


def _oracle_cost(results: Sequence[Null], units: Collection[str]) -> float | None:
    """The oracle's wall time, noise floor included, relative to the run of the same case on one of `units`.

    The median over all such runs; None without any.
    """
    ratios = [r.oracle_seconds / r.seconds for r in results if r.backend in units and r.seconds and not r.own]
    return statistics.median(ratios) if ratios else None


def null(  # noqa: PLR0913, PLR0917  one case, one backend, and its runs
    case: Case,
    backend: str,
    side: str,
    truth: Trace,
    plain: Outcome,
    variants: Mapping[str, Outcome],
    known: Known = nothing_known,
) -> Null:
    """Holds one backend against itself. `variants` are legal: `again` (fresh processes) and other orders of adding.

    A run that fails, as upstream faults make it, must fail in every variant; a run that finishes must be within rounding of the oracle,
    and its variants of the oracle and of itself. `known` tells what the ledger knows of a divergence.
    """
    seen = compare(case, backend, side, truth, plain)
    own = _own_fault(seen, known)
    told = {
        name: _numeric(case, backend, side, truth, outcome, own)
        for name, outcome in {"plain": plain, **variants}.items()
    }
    false = [f"{name}: {said}" for name, said in told.items() if said]
    odd = [
        name
        for name, outcome in variants.items()
        if isinstance(outcome, Failure) != isinstance(plain, Failure)
    ]
    false += [f"{name}: fails where the plain run does not, or the other way round" for name in odd]
    return Null(
        case=case.id,
        path=case.path,
        backend=backend,
        dtype=case.dtype,
        optimizer=case.training.optimizer,
        variants=len(variants),
        ratio=max((m.ratio for m in seen.measurements if seen.verdict == "agree"), default=0.0),
        deterministic=same(plain, variants["again"]) if "again" in variants else True,
        false=tuple(false),
        own=own,
    )


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two runs gave the same bits (two failures: the same kind)."""
    if isinstance(one, Failure) or isinstance(other, Failure):
        return isinstance(one, Failure) and isinstance(other, Failure) and one.kind == other.kind
    return all(
        mine.keys() == theirs.keys() and all(_equal(mine[key].pieces, theirs[key].pieces) for key in mine)
        for mine, theirs in zip(one.steps, other.steps, strict=True)
    )


def sweep(truth: Trace, mesh: Mesh, count: int, seed: int) -> Iterator[tuple[float, bool]]:
    """Adds errors of known size, in floors, to one random element of `count` tensors, and says which are detected."""
    random = np.random.default_rng(seed)
    tensors = [(step, key) for step, named in enumerate(truth.steps) for key in named]
    for size in SWEPT:
        for _ in range(count):
            step, key = tensors[random.integers(len(tensors))]
            value, deviation = truth.steps[step][key].full(mesh), truth.noise[step][key].full(mesh)
            yield size, _detected(value, deviation, (step, *key), size, random)


def detection_curve(results: Iterable[tuple[float, bool]]) -> dict[float, float]:
    """The share detected, by size in floors."""
    counted: dict[float, list[bool]] = {}
    for size, detected in results:
        counted.setdefault(size, []).append(detected)
    return {size: sum(found) / len(found) for size, found in counted.items()}


def _detected(value: Floats, deviation: Floats, at: Key, size: float, random: np.random.Generator) -> bool:
    floors = noise.floor(deviation)
    wrong = np.asarray(value + random.normal(size=value.shape) * deviation)
    place = tuple(random.integers(n) for n in value.shape)
    wrong[place] = value[place] + size * floors[place] * random.choice((-1.0, 1.0))
    return beyond(measure(at, value, deviation, wrong))


def _own_fault(seen: Comparison, known: Known) -> str:
    """The fingerprint of a fault that is the backend's own: a failure, numbers that no rounding explains, or one that the ledger knows."""
    first = seen.divergences[:1]
    return next(
        (
            d.fingerprint
            for d in first
            if checks.load(d.check).RUN_FAILED or (d.ratio or 0.0) >= REAL_FLOORS or known(d)
        ),
        "",
    )


def _numeric(  # noqa: PLR0913, PLR0917  one run and what is known of it
    case: Case, backend: str, side: str, truth: Trace, outcome: Outcome, own: str
) -> str:
    """What the comparator would report of a run that finished, other than the backend's own fault: all of it is false."""
    if isinstance(outcome, Failure):
        return ""
    first = compare(case, backend, side, truth, outcome).divergences[:1]
    return "".join(f"{d.check}: {d.detail}" for d in first if d.fingerprint != own)


def _equal(mine: Mapping[int, Any], theirs: Mapping[int, Any]) -> bool:
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[rank], theirs[rank], equal_nan=True) for rank in mine
    )
