"""The limits of a run: how much time, memory and output it may use of its machine.

The process that waits for the ranks watches them, and ends a run that uses more. The kernel's own limits do
not fit. RLIMIT_AS and RLIMIT_DATA count what XLA and CUDA reserve and never touch, Linux does not enforce
RLIMIT_RSS, RLIMIT_FSIZE also counts segments of shared memory, and control groups need rights that a worker
in a cluster lacks. Between two checks a rank can still grow: the limits keep a machine alive, they do not
account for every byte.

A run that exceeds a limit is an outcome: cases are small, so the framework is to blame. A machine that lacks
something is not an outcome; see `full_disk`.
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from difftest.judge.noise import SAMPLES, SAMPLES_VARIABLE
from difftest.records import traces
from workers.deadlines import DEADLINE_SECONDS

GIBIBYTE = 2**30
WATCH_SECONDS = 0.25
"""How often a run is checked."""

ROOM_BYTES = 2**20
"""With less free space than this, a failure may be due to the disk."""

_RESIDENT = 1
"""The index of the field of `/proc/N/statm` that counts the resident pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run.

    `seconds` for the whole run, `memory` in resident bytes of each rank, `output` in bytes of all files of
    all ranks.
    """

    seconds: float = DEADLINE_SECONDS
    memory: int = 8 * GIBIBYTE
    output: int = traces.MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that a run exceeded: `kind` names the limit, `message` says by how much.

    `rank` exceeded it, or stands for all ranks together.
    """

    rank: int
    kind: str
    message: str


def work_factor(options: Mapping[str, str]) -> float:
    """How many times the usual work a run does, at least 1.

    The oracle simulates rounding many more times when a verdict is in doubt.
    """
    return max(1.0, int(options.get(SAMPLES_VARIABLE, SAMPLES)) / SAMPLES)


def excess(limits: Limits, folder: Path, pids: Mapping[int, int]) -> Excess | None:
    """The first limit that a run exceeds now, or None; `pids` are its processes with their ranks."""
    for pid, rank in pids.items():
        held = resident(pid)
        if held > limits.memory:
            allowed = _in_gibibytes(limits.memory)
            message = f"the rank held {_in_gibibytes(held)} of memory; allowed: {allowed}"
            return Excess(rank=rank, kind="memory limit", message=message)
    sizes = _sizes(folder)
    total = sum(sizes.values())
    if total > limits.output:
        largest = max(sizes, key=lambda name: sizes[name])
        left, allowed = _in_gibibytes(total), _in_gibibytes(limits.output)
        message = f"the run left {left} of output, most of it in {largest}; allowed: {allowed}"
        return Excess(rank=_rank(largest), kind="output limit", message=message)
    return None


def resident(pid: int) -> int:
    """The resident memory of a process in bytes, pages shared with its zygote included; 0 when it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[_RESIDENT]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def full_disk(folder: Path) -> str | None:
    """Says that the disk of `folder` is full, so that a failure proves nothing; None when it has room."""
    free = shutil.disk_usage(folder).free
    return f"the disk of {folder.parent} is full: {free} bytes are left" if free < ROOM_BYTES else None


def _sizes(folder: Path) -> dict[str, int]:
    sizes = {}
    with os.scandir(folder) as files:
        for file in files:
            try:
                sizes[file.name] = file.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue  # renamed into place meanwhile
    return sizes


def _rank(name: str) -> int:
    match = re.match(r"rank(\d+)\.", name)
    return int(match[1]) if match else 0


def _in_gibibytes(size: int) -> str:
    return f"{size / GIBIBYTE:.3g} GiB"
