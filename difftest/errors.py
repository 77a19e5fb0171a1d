"""The errors a user can cause, and those the machine causes.

`difftest.cli` turns the first kind into exit status 2 and the second into 3; nothing else is caught there.
"""


class UsageError(ValueError):
    """Something the user gave is wrong: the message says what, the value and what is allowed."""


class InfrastructureError(RuntimeError):
    """The machine or the cluster could not do its part; never evidence about a backend."""


class UnsupportedError(InfrastructureError):
    """A worker's packages cannot do what the driver's could: the case is not run there, which is neither a failure nor trouble."""
