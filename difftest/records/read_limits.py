"""The most that is read of each kind of file, which bounds what a damaged or hostile one costs."""

from pathlib import Path

from difftest.ground.errors import DamagedError

MOST_CASE_BYTES = 2**20
"""The most of a case; the largest valid one has some ten thousand bytes."""

MOST_FINDING_BYTES = 2**24
"""The most of a finding, whose log is the longest part."""

MOST_SCRIPT_BYTES = 2**20
"""The most of a finding's script, and of what it printed."""

MOST_LINE_BYTES = 2**24
"""The most of one line in a file of lines: one run with its measurements."""

MOST_RUN_BYTES = 2**26
"""The most of the file that describes one run, without its arrays."""

MOST_LEDGER_BYTES = 2**22
"""The most of a ledger of known faults."""


def read(file: Path, most: int) -> bytes:
    """The content of `file`.

    `DamagedError` if it has more than `most` bytes, `OSError` if it cannot be read.
    """
    with file.open("rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        msg = f"{file} is larger than {most} bytes, the most that is read of such a file"
        raise DamagedError(msg)
    return content
