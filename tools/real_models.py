"""Measures difftest on models that it did not make: each on layouts of two ranks, as rows of a table.

    python tools/real_models.py --steps 2 hf:llama timm:vit_tiny_patch16_224 torchvision:resnet18
    python tools/real_models.py --layouts ddp,spmd --page docs/real-models.md hf:t5

A row has for each layout `agree`, the known fault, the refusal, or in bold a finding that nobody knows. With
`--page` every result is put into that page as soon as it is known, and what the page has is not measured
again but with `--again`. No model is begun after `--seconds`: the same command continues.
"""

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.ground.installed import versions
from difftest.jobs.proof import real_models
from difftest.judge.comparator import Comparison
from workers.isolate.described import described_each
from workers.plain_layouts import LAYOUTS

AGREE, NOT_RUN, KNOWN, REFUSED, UNKNOWN = "agree", "", "fault ", "refused: ", "**"
BEGINS, ENDS = "<!-- what tools/real_models.py writes -->", "<!-- until here -->"
ROW = re.compile(r"\| `(?P<model>[^`]+)` \|(?P<cells>.*)\|")

Row = dict[str, str]
"""What came of a model, in words, by layout."""


def main() -> None:
    """Prints a row for every model as it is measured; status 1 where the ledger knows not all findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    layouts, unknown, end = given.layouts.split(","), 0, time.monotonic() + given.seconds
    print(*head(layouts), sep="\n", flush=True)
    rows = rows_of(given.page.read_text()) if given.page and not given.again else {}
    missing = {
        source: [layout for layout in layouts if rows.get(source, {}).get(layout, NOT_RUN) == NOT_RUN]
        for source in given.models
    }
    for source, description in described_each([source for source in given.models if missing[source]]):
        row = rows.get(source, {})
        for layout, word in words(description, missing[source], given.steps):
            row |= {layout: word}
            unknown += word.startswith(UNKNOWN)
            if given.page:
                put(given.page, source, row, given.steps)
        print(line(source, layouts, row), flush=True)
        if time.monotonic() > end:
            break
    sys.exit(bool(unknown))


def head(layouts: Sequence[str]) -> tuple[str, str]:
    """The first two lines of a table."""
    return f"| model | {' | '.join(layouts)} |", "|---|" + "---|" * len(layouts)


def line(source: str, layouts: Sequence[str], row: Mapping[str, str]) -> str:
    """A model's line of a table."""
    return f"| `{source}` | {' | '.join(row.get(layout, NOT_RUN).replace('|', '/') for layout in layouts)} |"


def words(
    description: Description | UsageError, layouts: Sequence[str], steps: int
) -> Iterator[tuple[str, str]]:
    """For every layout what came of a model, or for all of them why it was refused."""
    if isinstance(description, UsageError):
        yield from ((layout, f"{REFUSED}{description}") for layout in layouts)
        return
    for layout in layouts:
        path, backend = LAYOUTS[layout]
        try:
            case = real_models.plain_case(description, path, steps, "float32", backend)
            yield layout, _word(real_models.comparison(case, backend), case)
        except (UsageError, InfrastructureError) as error:
            yield layout, f"failed: {error}"


def _word(comparison: Comparison, case: Case) -> str:
    if not comparison.divergences:
        return comparison.reason or comparison.verdict
    entry = real_models.entry(comparison, case)
    if entry is None:
        return f"{UNKNOWN}{comparison.divergences[0].detail}{UNKNOWN}"
    place = entry.upstream or entry.reason
    return KNOWN + (f"`{Path(place).stem}`" if place.startswith("difftest/") else place)


def rows_of(page: str) -> dict[str, Row]:
    """The rows that a page has, by model."""
    return {
        match["model"]: dict(zip(LAYOUTS, (cell.strip() for cell in match["cells"].split("|")), strict=True))
        for match in ROW.finditer(page)
    }


def put(page: Path, source: str, row: Row, steps: int) -> None:
    """Puts a row into a page: what it has of other layouts of the model stays."""
    text = page.read_text()
    before, _, rest = text.partition(BEGINS)
    rows = rows_of(rest.partition(ENDS)[0])
    rows[source] = rows.get(source, {}) | row
    lines = [BEGINS, "", summary(rows.values(), steps), "", *head(tuple(LAYOUTS))]
    lines += [line(model, tuple(LAYOUTS), rows[model]) for model in sorted(rows)]
    page.write_text(before + "\n".join([*lines, "", ENDS]) + rest.partition(ENDS)[2])


def summary(rows: Iterable[Row], steps: int) -> str:
    """What all rows say together, and what they were measured with."""
    rows = list(rows)
    cells = [cell for row in rows for cell in row.values() if cell != NOT_RUN]
    agree, known, unknown = (
        sum(cell.startswith(start) for cell in cells) for start in (AGREE, KNOWN, UNKNOWN)
    )
    rest = len(cells) - agree - known - unknown
    packages = versions("torch", "torch_xla", "transformers", "timm", "torchvision", "diffusers")
    releases = ", ".join(f"{name} {release}" for name, release in packages.items())
    today = utc_today()
    return (
        f"{len(rows)} models in {len(cells)} comparisons: {agree} agree, {known} show a fault of upstream "
        f"that the ledger has, {unknown} show something else, and {rest} were not compared, with the reason. "
        f"Two ranks, {steps} steps, float32; last run on {today} with {releases}."
    )


if __name__ == "__main__":
    main()
