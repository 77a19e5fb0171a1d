"""The time limit of a run: 60 seconds, unless the user sets another; and the longest one allowed."""

import os

from difftest.errors import UsageError

MOST_SECONDS = 24 * 3600.0
DEADLINE_VARIABLE = "DIFFTEST_DEADLINE"


def deadline() -> float:
    """The time limit of a run in seconds: what `DIFFTEST_DEADLINE` says, for slow machines, or 60.

    Raises `UsageError` for anything but a number from 1 to 86400.
    """
    given = os.environ.get(DEADLINE_VARIABLE, "60")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MOST_SECONDS:
        msg = f"{DEADLINE_VARIABLE} is {given!r}; allowed: a number of seconds from 1 to {MOST_SECONDS:g}"
        raise UsageError(msg)
    return seconds


DEADLINE_SECONDS = deadline()
