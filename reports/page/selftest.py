"""`selftest.html`: the plot behind the threshold, the planted defects and the false findings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from difftest.judge.noise import THRESHOLD
from reports.page.template import template

FILENAME = "selftest.html"
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 624, 12, 250
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def render(result: Mapping[str, Any]) -> bytes:
    """The page of the JSON object that `difftest selftest --json` prints."""
    environment = ", ".join(f"{key} {value}" for key, value in result.get("environment", {}).items())
    parts = {part: result.get(part) for part in ("planted", "null", "green")} | {"seed": result["seed"]}
    page = template(FILENAME).render(
        result=parts, environment=environment, verdict=_verdict(parts), plot=_plot(result)
    )
    return page.encode()


def _verdict(result: Mapping[str, Any]) -> str:
    """The result in a few sentences."""
    sentences = []
    if planted := result["planted"]:
        detected = f"{planted['detected']} of {planted['defects']} planted defects found"
        sentences.append(f"{detected}, {planted['blame_rate']:.1%} of them blamed correctly.")
        rates = planted["fingerprints"]
        if rates["purity"] is not None:
            purity = f"{rates['purity']:.1%} of the fingerprints stand for one defect"
            sentences.append(f"{purity}; {rates['completeness']:.1%} of the defects have one fingerprint.")
    if null := result["null"]:
        false = null["false_findings"] or "No"
        sentences.append(f"{false} false findings in {null['cases']:,} cases ({null['runs']:,} runs).")
    if green := result["green"]:
        noticed = f"{green['noticed']} of {green['faults']} campaigns in which nothing was proved"
        sentences.append(f"{noticed} end in another status than 0.")
    return " ".join(sentences)


def _plot(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The curves in the plot's own coordinates; None without a sweep."""
    sweep, null = _numbered(result.get("sweep", {})), result.get("null")
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
    """A curve by size; in JSON the sizes are strings."""
    return {float(size): share for size, share in curve.items()}


def _points(curve: Mapping[float, float]) -> str:
    """A curve as the points of an SVG polyline."""
    return " ".join(f"{_across(size, list(curve))},{_up(share)}" for size, share in curve.items())


def _across(size: float, sizes: Sequence[float]) -> float:
    """The x coordinate of a size, on a logarithmic scale."""
    least, most = math.log(min(sizes)), math.log(max(sizes))
    return round(LEFT + (RIGHT - LEFT) * (math.log(size) - least) / (most - least), 1)


def _up(share: float) -> float:
    """The y coordinate of a share from 0 to 1."""
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)
