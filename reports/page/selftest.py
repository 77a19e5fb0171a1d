"""`selftest.html`: how good the service is, on one page: the plot behind the threshold, planted defects, false findings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from difftest.judge.noise import THRESHOLD
from reports.page.template import template

FILENAME = "selftest.html"
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 624, 12, 250
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def render(told: Mapping[str, Any]) -> bytes:
    """The page of what `difftest selftest --json` prints."""
    environment = ", ".join(f"{key} {value}" for key, value in told.get("environment", {}).items())
    parts = {"planted": told.get("planted"), "null": told.get("null"), "seed": told["seed"]}
    page = template(FILENAME).render(
        told=parts, environment=environment, verdict=_verdict(parts), plot=_plot(told)
    )
    return page.encode()


def _verdict(told: Mapping[str, Any]) -> str:
    said = []
    if planted := told["planted"]:
        said.append(
            f"{planted['detected']} of {planted['defects']} planted defects found, {planted['blame_rate']:.1%} of them blamed right."
        )
        apart = planted["fingerprints"]
        if apart["purity"] is not None:
            said.append(
                f"Fingerprints: {apart['purity']:.1%} are one defect's, {apart['completeness']:.1%} of the defects have one."
            )
    if null := told["null"]:
        said.append(
            f"{null['false_findings'] or 'No'} false findings in {null['cases']:,} cases ({null['runs']:,} runs)."
        )
    return " ".join(said)


def _plot(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The curves in the plot's own coordinates; None without a sweep."""
    sweep, null = _numbered(told.get("sweep", {})), told.get("null")
    if not sweep or not null:
        return None
    beyond, sizes = _numbered(null["beyond"]), list(sweep)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "ticks": [(_across(size, sizes), f"{size:g}") for size in sizes],
        "shares": [(_up(share), f"{share:.0%}") for share in SHARES],
        "threshold": _across(THRESHOLD, sizes),
        "found": _points(sweep),
        "noise": _points(beyond),
        "rows": [(f"{size:g}", f"{sweep[size]:.0%}", f"{beyond[size]:.2%}") for size in sizes],
    }


def _numbered(curve: Mapping[Any, float]) -> dict[float, float]:
    """A curve by size; JSON has made words of the sizes."""
    return {float(size): share for size, share in curve.items()}


def _points(curve: Mapping[float, float]) -> str:
    return " ".join(f"{_across(size, list(curve))},{_up(share)}" for size, share in curve.items())


def _across(size: float, sizes: Sequence[float]) -> float:
    """Where a size stands, on a logarithmic scale."""
    least, most = math.log(min(sizes)), math.log(max(sizes))
    return round(LEFT + (RIGHT - LEFT) * (math.log(size) - least) / (most - least), 1)


def _up(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)
