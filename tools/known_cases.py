"""Collects cases of known faults from campaigns, for `difftest/findings/known_cases.jsonl`.

    python tools/known_cases.py runs/nightly runs/first

Each folder is an --out. For every issue or script that the ledger names, the simplest case that showed it is
kept; one in the file is replaced only by a simpler one. Prints what has no case yet.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.findings.known_cases import KnownCase, read_known_cases, write_known_cases  # noqa: E402  found on the path above
from difftest.findings.ledger import read_ledger  # noqa: E402
from difftest.records.corpus import CORPUS, Corpus  # noqa: E402
from difftest.reduce.measure import measure  # noqa: E402
from tools.explained import explained  # noqa: E402


def main(folders: Sequence[Path]) -> None:
    """Updates the file."""
    best = {one.upstream: one.read() for one in read_known_cases()}
    for folder in folders:
        for _, case, entry in explained(Corpus(folder / CORPUS)):
            if entry.upstream not in best or measure(case) < measure(best[entry.upstream]):
                best[entry.upstream] = case
    write_known_cases(
        KnownCase(upstream=upstream, case=msgspec.Raw(case.to_json())) for upstream, case in best.items()
    )
    named = dict.fromkeys(entry.upstream for entry in read_ledger().entries)
    lacking = [upstream for upstream in named if upstream not in best]
    print(f"{len(best)} cases; without one:", *lacking, sep="\n  ")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
