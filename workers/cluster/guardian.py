"""A small process that outlives a driver, and clears away what a killed one leaves of its own Ray instance.

Ray ends its processes with the driver, but a worker that is still importing notices nothing for seconds.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from workers.cluster import instance
from workers.isolate import zygotes


@contextmanager
def watching() -> Iterator[None]:
    """Has a guardian watch this process: it reads from a pipe that this process holds open until it ends.

    The guardian runs in a session of its own, where the signals of the terminal do not reach it. It belongs
    outside of `instance.folder`, so that it is not a process of the instance.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "workers.cluster.guardian"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env=zygotes.environment(),
    ):
        yield


if __name__ == "__main__":
    sys.stdin.read()
    instance.remove_what_is_left()
