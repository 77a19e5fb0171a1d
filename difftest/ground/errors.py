"""The errors that a user can cause, and those that the machine causes.

`difftest.cli` ends with the `status` of an error.
"""

from functools import partial
from typing import ClassVar


class UsageError(ValueError):
    """Something that the user gave is wrong; the message says what, the value and what is allowed."""

    status: ClassVar[int] = 2


class DamagedError(UsageError):
    """A record cannot be read, and not because a newer version wrote it or because it is not accessible."""


class InfrastructureError(RuntimeError):
    """The machine or the cluster failed, which is no evidence about a backend."""

    status: ClassVar[int] = 3


class StoppedError(RuntimeError):
    """The command ends before its work is complete; the same command continues it.

    It was interrupted, or its cluster is gone. `status` is its exit status. No run is tried again or recorded
    for it, so it is no `InfrastructureError`.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoTimeError(InfrastructureError):
    """A run was not made, or was cut, because the command's time is over; the same command continues.

    It is neither tried again nor counted as lost.
    """


class UnsupportedError(InfrastructureError):
    """A worker cannot run a case with its packages or on this backend; it is counted, not tried again."""


NODE_LOST = "node lost"
"""The kind of a `LethalError`: the node died while the work ran on it."""

OUT_OF_MEMORY = "out of memory"
"""The kind of a `LethalError`: the work used more memory than it may, or than there was."""


class LethalError(InfrastructureError):
    """The work itself may have killed what ran it: no evidence when it happens once, a finding when twice.

    `kind` identifies what happened (`NODE_LOST`, `OUT_OF_MEMORY`), and is part of a finding's identity.
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:  # between processes; an exception keeps only its arguments
        return partial(LethalError, kind=self.kind), self.args
