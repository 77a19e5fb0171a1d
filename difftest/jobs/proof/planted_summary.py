"""Planted defects: how many are detected and blamed, and whether each has one fingerprint of its own."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

WORTH_FINDING = 10.0
"""In units of the rounding noise; a defect with a smaller effect does not count against the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One defect on one backend.

    `cases` counts the generated cases until it was detected, or all that were tried. `seconds` is the wall
    time of that, while other defects are searched for beside it. `floors` is its effect in units of the
    rounding noise; None where it was not measured, and where no case could show it. `hits` are the path and
    the fingerprint of every case that showed it, a few more than the first; none of programs, whose
    fingerprints name the operator, so that a defect of several operators has several;
    none of torch itself.
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


def planted_summary(results: Sequence[Planted]) -> dict[str, Any]:
    """Rates over the defects worth finding, and every defect by itself."""
    counted = [r for r in results if r.floors is None or r.floors >= WORTH_FINDING]
    detected = [r for r in counted if r.detected]
    return {
        "defects": len(results),
        "detected": sum(r.detected for r in results),
        "blamed": sum(r.detected and r.blamed for r in results),
        "detection_rate": len(detected) / len(counted) if counted else 0.0,
        "blame_rate": sum(r.blamed for r in detected) / len(detected) if detected else 0.0,
        "median_cases": statistics.median(r.cases for r in detected) if detected else None,
        "fingerprints": fingerprint_rates(results),
        "by_defect": [asdict(r) | {"blamed": r.blamed} for r in results],
    }


def fingerprint_rates(results: Iterable[Planted]) -> dict[str, Any]:
    """Whether a fingerprint stands for one defect.

    `purity` is the share of fingerprints that only one defect has. `completeness` is the share of defects,
    each on one backend and path, that have only one fingerprint. Both are None if no case showed a defect.
    `merged` and `split` name the others.
    """
    defects: dict[str, set[str]] = {}
    fingerprints: dict[str, set[str]] = {}
    for result in results:
        for path, fingerprint in result.hits:
            defects.setdefault(fingerprint, set()).add(result.defect)
            fingerprints.setdefault(f"{result.defect} on {result.backend}, {path}", set()).add(fingerprint)
    merged = {fingerprint: sorted(names) for fingerprint, names in defects.items() if len(names) > 1}
    split = {where: sorted(names) for where, names in fingerprints.items() if len(names) > 1}
    return {
        "purity": 1 - len(merged) / len(defects) if defects else None,
        "completeness": 1 - len(split) / len(fingerprints) if fingerprints else None,
        "merged": merged,
        "split": split,
    }
