"""The errors that a user can cause, and those that the machine causes.

`difftest.cli` turns the first kind into exit status 2 and the second into 3.
"""


class UsageError(ValueError):
    """Something that the user gave is wrong; the message says what, the value and what is allowed."""


class DamagedError(UsageError):
    """A record cannot be read, and not because a newer version wrote it or because it is not accessible."""


class InfrastructureError(RuntimeError):
    """The machine or the cluster failed, which is no evidence about a backend."""


class UnsupportedError(InfrastructureError):
    """A worker's packages do not support a case that the driver's do: the run is left out, not an error."""
