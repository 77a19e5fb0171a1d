"""The deadline of a run: how long it may make no progress, and how long it may take at most.

`workers.isolate.progress` says what progress is.
"""

from difftest.ground.variables import number

USUAL_SECONDS, MOST_SECONDS = 60.0, 24 * 3600.0
DEADLINE_VARIABLE = "DIFFTEST_DEADLINE"

LONGEST_DEADLINES, LONGEST_AT_LEAST = 30.0, 600.0
"""In deadlines, and the least in seconds: how long a run may take on a machine that keeps it waiting."""


def deadline() -> float:
    """How long a run may make no progress, in seconds: what `DIFFTEST_DEADLINE` says, or 60.

    Raises `UsageError` for anything but a number from 1 to 86400.
    """
    allowed = f"a number of seconds from 1 to {MOST_SECONDS:g}"
    seconds = number(DEADLINE_VARIABLE, allowed, lambda value: 1 <= value <= MOST_SECONDS)
    return USUAL_SECONDS if seconds is None else seconds


def longest_seconds(deadline: float) -> float:
    """How long a run with this deadline takes at most by the clock, both in seconds: it is ended then."""
    return max(LONGEST_AT_LEAST, LONGEST_DEADLINES * deadline)


DEADLINE_SECONDS = deadline()
