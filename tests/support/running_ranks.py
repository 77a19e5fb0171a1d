"""Waits for the ranks of a run that goes on below this process."""

import os
import time
from collections import defaultdict

import psutil
import pytest

LONGEST_SECONDS = 120.0
"""How long a run may take to begin on a busy machine; alone it takes less than one."""


def running_ranks(number: int = 2) -> list[psutil.Process]:
    """The ranks that one of the zygotes below this process has forked, once there are so many."""
    end = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < end:
        for ranks in _forked().values():
            if len(ranks) == number:
                return ranks
        time.sleep(0.05)
    pytest.fail("no run began")


def is_rank(process: psutil.Process) -> bool:
    """Whether a process is a rank that runs. Its command is the first zygote's, and its name its own."""
    try:
        return process.name().startswith("rank ") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _forked() -> dict[int, list[psutil.Process]]:
    """The ranks that each zygote below this process has forked, from one look at all processes."""
    every = {one.pid: one for one in psutil.process_iter(["ppid", "name", "status"])}
    forked = defaultdict[int, list[psutil.Process]](list)
    for pid, one in every.items():
        if is_rank(one) and _is_below_this_one(pid, every):
            forked[one.info["ppid"]].append(one)
    return forked


def _is_below_this_one(pid: int, every: dict[int, psutil.Process]) -> bool:
    while pid in every:
        if pid == os.getpid():
            return True
        pid = every[pid].info["ppid"]
    return False
