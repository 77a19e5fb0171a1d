"""Measures difftest on models that it did not make: each on six layouts, as rows of a table.

    python tools/real_models.py --steps 2 hf:llama timm:vit_tiny_patch16_224 torchvision:resnet18

A row has for each layout `agree`, the known fault, the refusal, or in bold a finding that nobody knows.
"""

import argparse
import datetime as dt
import sys
from collections.abc import Sequence

from difftest.cases.case import Case
from difftest.findings.ledger import LEDGER_FILE, read_ledger
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.proof import real_models
from difftest.judge.comparator import Comparison
from workers.isolate.described import described
from workers.plain_layouts import LAYOUTS


def main() -> None:
    """Prints a row for every model as it is measured; status 1 where the ledger knows not all findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    given = parser.parse_args()
    layouts, unknown = given.layouts.split(","), 0
    print("| model |", " | ".join(layouts), "|", flush=True)
    print("|---|" + "---|" * len(layouts), flush=True)
    for source in given.models:
        row = words(source, layouts, given.steps)
        unknown += sum("**" in word for word in row)
        print(f"| `{source}` |", " | ".join(row), "|", flush=True)
    sys.exit(bool(unknown))


def words(source: str, layouts: Sequence[str], steps: int) -> list[str]:
    """For every layout what came of a model, or for all of them why it was refused."""
    try:
        description = described(source, ())
    except (UsageError, InfrastructureError) as error:
        return [f"refused: {error}"]
    row = []
    for layout in layouts:
        path, backend = LAYOUTS[layout]
        try:
            case = real_models.plain_case(description, path, steps, "float32")
            row.append(_word(real_models.comparison(case, backend), case))
        except (UsageError, InfrastructureError) as error:
            row.append(f"failed: {error}")
    return row


def _word(comparison: Comparison, case: Case) -> str:
    if not comparison.divergences:
        return comparison.reason or comparison.verdict
    first, today = comparison.divergences[0], dt.datetime.now(tz=dt.UTC).date()
    entry = read_ledger(LEDGER_FILE).entry(first, case, today)
    return f"known: {entry.upstream or entry.reason}" if entry else f"**{first.detail}**"


if __name__ == "__main__":
    main()
