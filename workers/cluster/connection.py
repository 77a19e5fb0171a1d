"""The process's connection to Ray: what waits for Ray's answers stops waiting when the connection ends.

It ends when a command is interrupted, or when `workers.cluster.health` finds that Ray is gone. Ray itself
does not notice: a call to a dead cluster waits until its own time is over, and some never return.
"""

import threading
import time
from pathlib import Path
from typing import Any

import ray

from difftest.ground.errors import NoTimeError, StoppedError

POLL_SECONDS = 0.5
"""How often a call that waits looks whether the connection has ended."""


class Connection:
    """Whether Ray can be called.

    `folder` is that of the instance, where the cluster is one of this process, with one node; None of another
    cluster.

    `ended` is set when it must not be called any more, `lost` when it is gone.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.ended = threading.Event()
        self.lost = False
        self.cut = float("inf")
        """The time (monotonic) at which calls that still wait raise `NoTimeError`."""
        self._reason = ("", 0)
        self._lock = threading.Lock()

    @property
    def local(self) -> bool:
        """Whether the cluster is one of this process."""
        return self.folder is not None

    def end(self, message: str, status: int, *, lost: bool = False) -> None:
        """From now on, every `require` raises `StoppedError` with this message and exit status.

        The first of several calls counts; `lost` says that Ray is gone, whichever call it was.
        """
        with self._lock:
            self.lost |= lost
            if not self.ended.is_set():
                self._reason = (message, status)
                self.ended.set()

    def require(self) -> None:
        """Raises `StoppedError` when the connection has ended, `NoTimeError` when the time is over."""
        if self.ended.is_set():
            message, status = self._reason
            raise StoppedError(message, status=status)
        if time.monotonic() > self.cut:
            msg = "it was cut some time after the budget's end"
            raise NoTimeError(msg)

    def result(self, reference: Any, seconds: float) -> Any:  # noqa: ANN401
        """The result of a call, as of `ray.get`; raises as `require` does while it waits."""
        end = time.monotonic() + seconds
        while True:
            self.require()
            left = end - time.monotonic()
            try:
                return ray.get(reference, timeout=max(0.0, min(POLL_SECONDS, left)))
            except ray.exceptions.GetTimeoutError:
                if left <= POLL_SECONDS:
                    raise
            except ray.exceptions.RayError:
                self.require()
                raise


_none = Connection(None)
_current = _none


def current() -> Connection:
    """The connection of this process, of which Ray allows one; one that never ends where there is none."""
    return _current


def begin(folder: Path | None) -> Connection:
    """A new connection, which is the current one from now on; `folder` is as in `Connection`."""
    global _current  # noqa: PLW0603  as Ray's own connection
    _current = Connection(folder)
    return _current
