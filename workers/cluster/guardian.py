"""A small process that outlives a driver, and clears away what a killed one leaves of its own Ray instance.

Ray ends its processes with the driver, but a worker that is still importing notices nothing for seconds.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workers.cluster import instance
from workers.isolate import zygotes


@contextmanager
def watching() -> Iterator[None]:
    """Has a guardian watch this process: it reads from a pipe on which this process says when all is done.

    The guardian runs in a session of its own, where the signals of the terminal do not reach it. It belongs
    outside of `instance.folder`, so that it is not a process of the instance.
    """
    with subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-P", "-m", "workers.cluster.guardian", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env=zygotes.environment(),
        text=True,
    ) as guardian:
        try:
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):  # it was killed
                guardian.communicate("done")


def _guard(driver: int) -> None:
    """Waits for the driver, its parent, to end, and clears away what it left unless it said that all is done.

    The pipe of a killed process is closed before its locks are released; its children get another parent
    after both.
    """
    if not sys.stdin.read():
        while os.getppid() == driver:
            time.sleep(0.01)
        instance.remove_what_is_left()


if __name__ == "__main__":
    _guard(int(sys.argv[1]))
