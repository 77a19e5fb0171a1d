"""`flips.json`: every flip with what both releases showed, and how many things were tried on each release."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from difftest.findings.flips import Became, Flip, Tried
from reports.watch.words import title

FILENAME = "flips.json"


def render(flips: Sequence[Flip], tried: Sequence[Tried], problems: Mapping[str, str]) -> bytes:
    """The file's content; the flips are grouped by package."""
    by_package: dict[str, dict[str, list[object]]] = {}
    for flip in flips:
        became = by_package.setdefault(flip.package, {str(each): [] for each in Became})
        became[flip.became].append({"title": title(flip), "before": flip.before, "after": flip.after})
    counts = Counter((entry.package, entry.release) for entry in tried if entry.when)
    document = {
        "flips": by_package,
        "tried": [
            {"package": package, "release": release, "count": count}
            for (package, release), count in sorted(counts.items())
        ],
        "problems": problems,
    }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"
