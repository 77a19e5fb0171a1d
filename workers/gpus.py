"""The number of GPUs, without asking a framework.

A framework takes seconds to answer, and creates a CUDA context in a process that is to be forked.
"""

import os
from itertools import takewhile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
PLATFORMS, ON_GPUS = "JAX_PLATFORMS", "cuda"
"""JAX's name for where it runs, and for GPUs."""


def gpu_count() -> int:
    """How many GPUs the driver shows on this machine, of those that this process may use.

    CUDA reads the list of visible GPUs up to the first entry that names none of them (CUDA C++ Programming
    Guide, "Environment variables").
    """
    there = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if VISIBLE not in os.environ:
        return there
    entries = map(str.strip, os.environ[VISIBLE].split(","))
    named = takewhile(
        lambda entry: int(entry) < there if entry.isdecimal() else entry.startswith(("GPU-", "MIG-")), entries
    )
    return min(there, len(list(named)))
