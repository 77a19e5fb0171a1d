"""The plot of a calibration: how often a real error is so many times the predicted noise."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

COLOURS = {"float32": "#1f77b4", "bfloat16": "#d62728", "float16": "#2ca02c", "float64": "#7f7f7f"}
LEAST, MOST = 1 / 64, 64.0
BINS_PER_DOUBLING = 2
WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 220, 56, 40, 60
MARKED = {1 / 3: "1/3", 1.0: "1", 3.0: "3", 10.0: "10"}
MOST_SHARE = 0.4


def svg(panels: Mapping[str, Mapping[str, Iterable[float]]], caption: str) -> str:
    """A panel for each title, with a line for each dtype: shares of its ratios by bin, on a log scale."""
    width = LEFT + len(panels) * (WIDTH + GAP)
    parts = [
        part for at, panel in enumerate(panels.items()) for part in _panel(LEFT + at * (WIDTH + GAP), *panel)
    ]
    style = "text { font: 12px sans-serif; fill: #333 } path { fill: none; stroke-width: 1.8 }"
    height = TOP + HEIGHT + 76
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            f'<style>{style}</style><rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            f'<text x="{LEFT}" y="{height - 12}">{caption}</text>',
            "</svg>\n",
        )
    )


def _panel(left: float, title: str, ratios: Mapping[str, Iterable[float]]) -> Iterator[str]:
    bottom = TOP + HEIGHT
    yield f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>'
    start, end = _across(left, 1 / 3), _across(left, 3.0)
    yield f'<rect x="{start:.1f}" y="{TOP}" width="{end - start:.1f}" height="{HEIGHT}" fill="#eef4fb"/>'
    yield f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    for ratio, label in MARKED.items():
        x = _across(left, ratio)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#999" stroke-dasharray="3"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
    for share in (0.1, 0.2, 0.3):
        y = bottom - share / MOST_SHARE * HEIGHT
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    middle = left + WIDTH / 2
    yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">real error / simulated noise</text>'
    for row, (dtype, values) in enumerate(ratios.items()):
        yield f'<path d="{_line(left, list(values))}" stroke="{COLOURS[dtype]}"/>'
        y = TOP + 16 + 15 * row
        yield f'<text x="{left + 8}" y="{y}" style="fill: {COLOURS[dtype]}">{dtype}</text>'


def _across(left: float, ratio: float) -> float:
    inside = min(max(ratio, LEAST), MOST)
    return left + math.log(inside / LEAST) / math.log(MOST / LEAST) * WIDTH


def _line(left: float, values: list[float]) -> str:
    """Steps whose heights are the shares of `values` in the bins; the outermost have all beyond them."""
    bins = round(math.log2(MOST / LEAST)) * BINS_PER_DOUBLING
    at = (math.floor(math.log2(min(max(v, LEAST), MOST) / LEAST) * BINS_PER_DOUBLING) for v in values)
    shares = Counter(min(place, bins - 1) for place in at)
    step, heights = (
        WIDTH / bins,
        (min(1.0, shares[b] / len(values) / MOST_SHARE) * HEIGHT for b in range(bins)),
    )
    points = (f"H{left + b * step:.1f}V{TOP + HEIGHT - h:.1f}" for b, h in enumerate(heights))
    return f"M{left},{TOP + HEIGHT}{''.join(points)}H{left + WIDTH}V{TOP + HEIGHT}"
