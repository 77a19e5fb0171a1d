"""Writes `difftest/records/support.json`: what backends refuse in a run, and their share of each path.

    difftest run --paths operators --cases 700 --out runs/support
    python tools/support_table.py runs/support ...

The refusals are those of all campaigns in the folders, without those that `reachable.json` explains. The
shares are of the first cases of seed 0, as `difftest support` counts them.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from difftest.commands.support import rows
from difftest.ground import installed
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.observation import UNSUPPORTED, Observation
from difftest.records.support import Refusal, Support, is_claimed, refusals

NOT_INSTALLED = "is not installed here"
"""In a reason: what another machine may have (`workers.exceptions`)."""

FILE = Path(__file__).parent.parent / "difftest" / "records" / "support.json"


def main() -> None:
    """Writes the file anew."""
    lines = (line for folder in sys.argv[1:] for line in Corpus(Path(folder) / CORPUS).observations())
    shares: dict[str, dict[str, float]] = {}
    for row in rows():
        shares.setdefault(row.backend, {})[row.path] = round(row.supported / row.cases, 3)
    made = Support(
        torch=str(installed.version("torch")),
        torch_xla=str(installed.version("torch_xla")),
        refusals=tuple(sorted(set(_refused(lines)), key=lambda one: (one.backend, one.reason, one.operator))),
        shares={name: dict(sorted(own.items())) for name, own in sorted(shares.items())},
    )
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    print(f"{len(made.refusals)} refusals, {len(made.shares)} backends")


def _refused(lines: Iterable[Observation]) -> Iterator[Refusal]:
    for line in lines:
        if NOT_INSTALLED in line.reason:
            continue  # the next machine may have it
        ran = line.verdict == UNSUPPORTED and line.outcome.status != UNSUPPORTED
        if ran and not is_claimed(line.lacks):
            yield from refusals(line.backend, line.reason_in_short, line.lacks)


if __name__ == "__main__":
    main()
