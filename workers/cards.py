"""GPUs, without asking a framework: that takes seconds, and a CUDA context in a process that is to be forked."""

from pathlib import Path


def cards() -> int:
    """How many GPUs the driver shows on this machine."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
