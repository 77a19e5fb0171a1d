"""What one rank may use of its machine: time, memory, output. Its parent watches, and ends a run that goes beyond.

The kernel's own limits do not fit: RLIMIT_AS and RLIMIT_DATA count what XLA and CUDA reserve and never touch, Linux does not enforce
RLIMIT_RSS, RLIMIT_FSIZE also counts segments of shared memory, and control groups want rights that a worker in a cluster lacks.
Between two looks a rank can still grow: the limits keep a machine alive, they do not account for bytes.

A run that goes beyond is an outcome, since cases are small: the framework did it. What the machine itself lacks is not; see `strained`.
"""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from difftest.errors import UsageError
from difftest.judge.noise import SAMPLES, SAMPLES_VARIABLE
from difftest.records import traces

GIBIBYTE = 2**30
WATCH_SECONDS = 0.25
MOST_SECONDS = 24 * 3600.0
DEADLINE_VARIABLE = "DIFFTEST_DEADLINE"


def deadline() -> float:
    """What a run may take in seconds: the environment's choice, for slow machines, or 60. `UsageError` for what is no such number."""
    given = os.environ.get(DEADLINE_VARIABLE, "60")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MOST_SECONDS:
        msg = f"{DEADLINE_VARIABLE} is {given!r}; allowed: a number of seconds from 1 to {MOST_SECONDS:g}"
        raise UsageError(msg)
    return seconds


DEADLINE_SECONDS = deadline()

ROOM_BYTES = 2**20
"""With less than this left, a failure may be the disk's."""

SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_RESIDENT = 1
"""Which field of `/proc/N/statm` counts the resident pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run: `seconds` for the whole, `memory` resident bytes of each rank, `output` bytes of all files that its ranks leave."""

    seconds: float = DEADLINE_SECONDS
    memory: int = 8 * GIBIBYTE
    output: int = traces.MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that a run went beyond: the `rank` that did, or that stands for all, which limit, and by what."""

    rank: int
    kind: str
    message: str


def work(options: Mapping[str, str]) -> float:
    """How many times the usual work a run does: an oracle in doubt simulates rounding many times more often."""
    return max(1.0, int(options.get(SAMPLES_VARIABLE, SAMPLES)) / SAMPLES)


def excess(limits: Limits, folder: Path, pids: Mapping[int, int]) -> Excess | None:
    """The first limit that a run has gone beyond, or None; `pids` are its processes with their ranks."""
    for pid, rank in pids.items():
        held = resident(pid)
        if held > limits.memory:
            message = f"the rank held {_told(held)} of memory; allowed: {_told(limits.memory)}"
            return Excess(rank=rank, kind="memory limit", message=message)
    sizes = _sizes(folder)
    if sum(sizes.values()) > limits.output:
        largest = max(sizes, key=lambda name: sizes[name])
        message = f"the run left {_told(sum(sizes.values()))} of output, most of it in {largest}; allowed: {_told(limits.output)}"
        return Excess(rank=_rank(largest), kind="output limit", message=message)
    return None


def resident(pid: int) -> int:
    """The bytes of memory that a process holds, what it shares with its zygote included; 0 when it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[_RESIDENT]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def strained(folder: Path) -> str | None:
    """What the machine lacks, so that a failure on it proves nothing; None when it is in order."""
    free = shutil.disk_usage(folder).free
    return f"the disk of {folder.parent} is full: {free} bytes are left" if free < ROOM_BYTES else None


def without_secrets(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Environment variables but for those whose names say that they are secret: a framework's dump of its environment holds none."""
    return {name: value for name, value in variables if not SECRET.search(name)}


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
    told = re.match(r"rank(\d+)\.", name)
    return int(told[1]) if told else 0


def _told(size: int) -> str:
    return f"{size / GIBIBYTE:.3g} GiB"
