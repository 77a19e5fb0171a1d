"""How a command is interrupted: it stops its runs at once, and goes on to its reports.

The same command then continues. That holds for Ctrl-C and for the SIGTERM of a scheduler.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from difftest.ground.errors import StoppedError

STATUS = 130
"""The exit status of a command that was interrupted, as of a shell."""

INTERRUPTED = "interrupted"

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_interrupted = threading.Event()
"""Set while a command that was interrupted goes on to its reports."""

STOPS = "\ndifftest: interrupted; stops the runs and writes the reports (interrupt again to leave at once)\n"


@contextmanager
def interruptible(end: Callable[[str, int], None]) -> Iterator[None]:
    """While the context is open, a first signal calls `end` with a message and `STATUS`.

    A second one ends the process, whose children end with it. In other threads than the main one, signals are
    as they were.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = list[int]()

    def receive(number: int, _frame: FrameType | None) -> None:
        if received:
            os._exit(STATUS)
        received.append(number)
        _interrupted.set()
        os.write(2, STOPS.encode())  # print and click may be in the middle of a line of their own
        end(INTERRUPTED, STATUS)

    before = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _interrupted.clear()


def require_uninterrupted() -> None:
    """Raises `StoppedError` where the command was interrupted: what it waits for ends at once."""
    if _interrupted.is_set():
        raise StoppedError(INTERRUPTED, status=STATUS)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """A handler that makes a signal do what Ctrl-C does where nothing runs yet."""
    raise KeyboardInterrupt
