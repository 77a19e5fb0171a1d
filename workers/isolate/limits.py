"""The limits of a run: how long it may make no progress, and how much memory and output it may use.

The process that waits for the ranks watches them, and ends a run that uses more. The kernel's own limits do
not fit. RLIMIT_AS and RLIMIT_DATA count what XLA and CUDA reserve and never touch, Linux does not enforce
RLIMIT_RSS, RLIMIT_FSIZE also counts segments of shared memory, and control groups need rights that a worker
in a cluster lacks. Between two checks a run can still grow, by what the kernel clears in that time, some half
a GiB for each CPU: the limits keep a machine alive, they do not account for every byte.

A run that exceeds a limit is an outcome: cases are small, so the framework is to blame. A machine that lacks
something is not an outcome; see `full_disk`.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from difftest.cases.case import Case
from difftest.ground.variables import number
from difftest.judge.noise import SAMPLES, SAMPLES_VARIABLE
from difftest.records import traces
from workers.deadlines import DEADLINE_SECONDS
from workers.isolate import processes

GIBIBYTE = 2**30
WATCH_SECONDS = 0.25
"""How often a run is checked."""

ROOM_BYTES = 2**20
"""With less free space than this, a failure may be due to the disk."""

MEMORY_VARIABLE = "DIFFTEST_MEMORY"
MOST_GIBIBYTES = 2**20

GRACE_SECONDS = 3.0
"""How many of the run's own seconds the other ranks may continue once one has failed.

Enough to fail by themselves, not to wait out a collective.
"""

PROGRAM_GRACE_SECONDS = 0.3
"""As `GRACE_SECONDS`, of a program.

Its ranks work for milliseconds between two collectives, so that one that fails by itself does so at the same
time as the first. Which failed first is known from the times that they leave (`run_folder.failed_at`).
"""

SHARE_OF_MACHINE = 0.5
"""How much of the machine's memory a run may hold.

Not divided by the number of runs at a time: a healthy one held less than half a GiB on the CPU, and a run
must not be wrong where there are many CPUs. Two runs that grow without bounds at the same time meet the
kernel's own limit.
"""


def memory_limit() -> int:
    """How many bytes of memory a run may hold: what `DIFFTEST_MEMORY` says in GiB, or half of the machine's.

    Raises `UsageError` for anything but a number above 0 and up to 1048576.
    """
    allowed = f"a number of GiB above 0 and up to {MOST_GIBIBYTES}"
    gibibytes = number(MEMORY_VARIABLE, allowed, lambda value: 0 < value <= MOST_GIBIBYTES)
    if gibibytes is None:
        return int(SHARE_OF_MACHINE * processes.machine_memory())
    return int(gibibytes * GIBIBYTE)


MEMORY_BYTES = memory_limit()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of one run.

    `seconds` without progress (`workers.isolate.progress`), `memory` in resident bytes of all processes
    together, `output` in bytes of all files of all ranks. Once a rank has failed, the others may continue for
    `grace` of the run's own seconds.
    """

    seconds: float = DEADLINE_SECONDS
    grace: float = GRACE_SECONDS
    memory: int = MEMORY_BYTES
    output: int = traces.MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that a run exceeded: `kind` names the limit, `message` says by how much.

    `rank` exceeded it, or stands for all ranks together.
    """

    rank: int
    kind: str
    message: str


def usual(case: Case, deadline: float, options: Mapping[str, str]) -> RunLimits:
    """The limits of a run of `case`, or of cases like it, with this deadline for the usual work."""
    grace = PROGRAM_GRACE_SECONDS if case.model.is_program else GRACE_SECONDS
    return RunLimits(seconds=deadline * work_factor(options), grace=grace)


def work_factor(options: Mapping[str, str]) -> float:
    """How many times the usual work a run does, at least 1.

    The oracle simulates rounding many more times when a verdict is in doubt.
    """
    return max(1.0, int(options.get(SAMPLES_VARIABLE, SAMPLES)) / SAMPLES)


class LimitWatch:
    """Looks whether a run exceeds its limits; `folders` are those of its cases."""

    def __init__(self, limits: RunLimits, folders: Sequence[Path]) -> None:
        self._limits, self._folders = limits, folders
        self._shared = 0
        """How many bytes the processes shared, with each other or their zygote, when that was measured."""

    def excess(self, pids: Mapping[int, int]) -> Excess | None:
        """The first limit that the run exceeds now, or None; `pids` are its processes with their ranks."""
        return self._memory(pids) or self._output()

    def _memory(self, pids: Mapping[int, int]) -> Excess | None:
        """The memory limit, if it is exceeded.

        What processes share counts once, which takes long to measure, so it is measured only where the sum
        over the processes may be beyond the limit.
        """
        families = {pid: processes.with_children([pid]) for pid in pids}
        most = sum(processes.resident(pid) for family in families.values() for pid in family)
        if most - self._shared <= self._limits.memory:
            return None
        by_rank = {rank: sum(map(processes.proportional, families[pid])) for pid, rank in pids.items()}
        total = sum(by_rank.values())
        self._shared = most - total
        if total <= self._limits.memory:
            return None
        rank, alone = max(by_rank.items(), key=lambda each: each[1])
        by_itself = alone > self._limits.memory
        who, much = ("rank", alone) if by_itself else ("ranks", total)
        allowed = _in_gibibytes(self._limits.memory)
        message = f"the {who} held {_in_gibibytes(much)} of memory; allowed: {allowed}"
        return Excess(rank=rank, kind="memory limit", message=message)

    def _output(self) -> Excess | None:
        sizes = _sizes(self._folders)
        total = sum(sizes.values())
        if total <= self._limits.output:
            return None
        largest = max(sizes, key=lambda name: sizes[name])
        left, allowed = _in_gibibytes(total), _in_gibibytes(self._limits.output)
        message = f"the run left {left} of output, most of it in {largest}; allowed: {allowed}"
        match = re.match(r"rank(\d+)\.", largest)
        return Excess(rank=int(match[1]) if match else 0, kind="output limit", message=message)


def full_disk(folder: Path) -> str | None:
    """Says that the disk of `folder` is full, so that a failure proves nothing; None when it has room."""
    free = shutil.disk_usage(folder).free
    return f"the disk of {folder.parent} is full: {free} bytes are left" if free < ROOM_BYTES else None


def _sizes(folders: Sequence[Path]) -> Counter[str]:
    """The sizes of the files by name, those of one name in all folders together."""
    sizes = Counter[str]()
    for folder in folders:
        with os.scandir(folder) as files:
            for file in files:
                try:
                    sizes[file.name] += file.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue  # renamed into place meanwhile
    return sizes


def _in_gibibytes(size: int) -> str:
    return f"{size / GIBIBYTE:.3g} GiB"
