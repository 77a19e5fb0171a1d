"""Load on the machine: CPU-bound processes, beside which races have more to race with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROGRAM = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""Takes CPU time for as long as its parent lives, however the parent ends."""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Runs this many processes that take CPU time from others."""
    command = [sys.executable, "-c", PROGRAM, str(os.getpid())]
    running = [subprocess.Popen(command) for _ in range(processes)]  # noqa: S603  our own Python
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
