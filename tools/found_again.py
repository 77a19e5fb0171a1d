"""Which faults of the list a campaign or a nightly job found again.

    python tools/found_again.py runs/nightly

The folder is an --out. Prints a table by package, how many showed first in each quarter of an hour, and the
faults that did not show. A finding shows the fault whose file has its entry of the ledger.
"""

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.findings.faults import KnownFault, read_faults  # noqa: E402  found on the path above
from difftest.findings.ledger import entries  # noqa: E402
from difftest.records.corpus import CORPUS, Corpus  # noqa: E402
from tools.explained import explained  # noqa: E402


def main(out: Path) -> None:
    """Prints the table."""
    faults, shown = read_faults(), dict[str, dt.datetime]()
    named = {known.upstream: fault for fault in reversed(faults) for known in entries(fault)}
    for finding, _, entry in sorted(explained(Corpus(out / CORPUS)), key=lambda one: one[0].first_seen):
        if fault := named.get(entry.upstream):
            shown.setdefault(fault.title, dt.datetime.fromisoformat(finding.first_seen))
    print("\n".join(_table(faults, shown)))
    if shown:
        began = min(shown.values())
        hours = Counter(int((at - began).total_seconds() // 900) for at in shown.values())
        print("\nnew by quarter of an hour:", *(hours[quarter] for quarter in range(max(hours) + 1)))
    print(
        "\nnot shown:",
        *(f"  {one.package}: {one.title}" for one in faults if one.title not in shown),
        sep="\n",
    )


def _table(faults: Sequence[KnownFault], shown: dict[str, dt.datetime]) -> Iterator[str]:
    yield "| package | faults | shown again | silent | of these shown again |\n|---|---|---|---|---|"
    packages = [*dict.fromkeys(fault.package for fault in faults)]
    for name, chosen in [("all", packages), *((one, [one]) for one in packages)]:
        every = [fault for fault in faults if fault.package in chosen]
        silent = [fault for fault in every if not fault.loud]
        again = [sum(fault.title in shown for fault in some) for some in (every, silent)]
        yield f"| {name} | {len(every)} | {again[0]} | {len(silent)} | {again[1]} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
