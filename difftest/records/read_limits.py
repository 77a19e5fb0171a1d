"""Files from elsewhere: how much of each kind is read, so that a damaged or hostile one costs no more than that."""

from pathlib import Path

from difftest.errors import UsageError

MOST_CASE_BYTES = 2**20
"""Of a case; the largest that can be valid is some ten thousand bytes."""

MOST_FINDING_BYTES = 2**24
"""Of a finding, whose log is the longest part."""

MOST_LINE_BYTES = 2**24
"""Of one line of a file of lines: one run with its measurements."""

MOST_RUN_BYTES = 2**26
"""Of what describes one run, its arrays apart."""

MOST_LEDGER_BYTES = 2**22
"""Of the ledger of known faults."""


def read(file: Path, most: int) -> bytes:
    """What is in `file`; `UsageError` when that is more than `most` bytes, `OSError` when it cannot be read."""
    with file.open("rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        msg = f"{file} is larger than {most} bytes, the most that is read of such a file"
        raise UsageError(msg)
    return content
