"""The bars that the rates of a self-test must reach."""

from collections.abc import Mapping
from typing import Any

DETECTED_LEAST = 0.95
BLAMED_LEAST = 0.90

DISTINCT_LEAST = 0.95
"""The least purity and completeness of the fingerprints of at least `MANY` defects, if they are known."""

CHECKED_LEAST = 0.95
"""The least share of the null campaign's cases that must have been checked."""

MANY = 20
"""Of fewer defects, one that shares its fingerprint would outweigh any bar."""


def passed(result: Mapping[str, Any]) -> bool:
    """Whether every rate in the JSON object of `difftest selftest` reaches its bar.

    A campaign with a vacuous fault that ends in status 0 misses it. Parts that were not run pass.
    """
    planted, null, green = (result.get(part) for part in ("planted", "null", "green"))
    if green is not None and green["wrong"]:
        return False
    return (planted is None or _reached(planted)) and (null is None or _without_alarm(null))


def _without_alarm(null: Mapping[str, Any]) -> bool:
    """Whether nothing was wrongly found, in enough cases that were checked."""
    checked, unchecked = int(null["cases"]), len(null["unchecked"])
    return not null["false_findings"] and checked >= CHECKED_LEAST * (checked + unchecked) > 0


def _reached(planted: Mapping[str, Any]) -> bool:
    """Whether enough planted defects were detected, blamed correctly and told apart."""
    if planted["detection_rate"] < DETECTED_LEAST or planted["blame_rate"] < BLAMED_LEAST:
        return False
    if planted["defects"] < MANY:
        return True
    rates = (planted["fingerprints"][name] for name in ("purity", "completeness"))
    return all(rate is None or rate >= DISTINCT_LEAST for rate in rates)
