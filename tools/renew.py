"""Gives entries of the ledger of known faults another last day, spread so that few end on one.

    python tools/renew.py 2027-02-01                              # all entries: the months from that day on
    python tools/renew.py 2027-10-01 tests/upstream/views_on_xla.py    # those about an issue or script

Look at the fault before: `difftest triage` shows whether it is still there. The day follows from the issue or
script alone, so that entries about one fault end together, and an entry that is added or removed moves no
other. Of a fault with many entries, `TOGETHER` end on one day.
"""

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.findings.ledger import LEDGER_FILE  # noqa: E402  found on the path above

SPREAD_DAYS = 240
TOGETHER = 5

_ENTRY = re.compile(
    r'^upstream = "(?P<upstream>[^"]*)"$(?P<between>.*?)^expires = [\d-]+$', re.DOTALL | re.MULTILINE
)


def last_day(first: date, upstream: str, number: int) -> date:
    """The last day of the entry with this `number` of those about one issue or script."""
    key = f"{upstream} {number // TOGETHER}"
    days = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % SPREAD_DAYS
    return first + timedelta(days)


def renewed(text: str, first: date, chosen: Sequence[str] = ()) -> str:
    """The ledger's text with last days from `first` on, of the entries about `chosen`, by default all."""
    numbers = Counter[str]()

    def again(entry: re.Match[str]) -> str:
        upstream = entry["upstream"]
        number = numbers[upstream]
        numbers[upstream] += 1
        if chosen and upstream not in chosen:
            return entry[0]
        day = last_day(first, upstream, number)
        return f'upstream = "{upstream}"{entry["between"]}expires = {day}'

    return _ENTRY.sub(again, text)


def main(first: str, *chosen: str) -> None:
    """Rewrites the file."""
    text = LEDGER_FILE.read_text()
    LEDGER_FILE.write_text(renewed(text, date.fromisoformat(first), chosen))


if __name__ == "__main__":
    main(*sys.argv[1:])
