"""What the kernel says of the processes of a run: CPU time, waiting for a CPU, memory, children.

It is read from `/proc` (proc(5)). Where there is no such folder, or a process is gone, the answers are zero
or empty. `schedstat` of a thread is described in the kernel's Documentation/scheduler/sched-stats.rst; a
kernel without it reports that nothing waited.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

PROC = Path("/proc")

_RESIDENT = 1
"""The index of the field of `statm` that counts the resident pages."""

_STATE = 2
"""The index of the field of `stat` that follows the name in parentheses, which may have spaces."""

_USER, _SYSTEM = 13 - _STATE, 14 - _STATE
"""The indices of the CPU times after the name: user mode and kernel mode, in ticks."""

_WAITED = 1
"""The index of the field of `schedstat` that counts the nanoseconds in a run queue."""

_CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The memory limit of a container, by control groups of version 2 and 1; `max` for none."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def with_children(pids: Iterable[int]) -> list[int]:
    """The processes and all that they started, directly or not, each once."""
    family: dict[int, None] = {}
    queue = list(pids)
    while queue:
        pid = queue.pop()
        if pid not in family:
            family[pid] = None
            queue += [int(child) for thread in _threads(pid) for child in _words(thread / "children")]
    return list(family)


def cpu_seconds(pid: int) -> float:
    """The CPU time that the threads of a process have used, those that have ended included."""
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS if fields else 0.0


def waited_seconds(pid: int) -> dict[int, float]:
    """For how long each thread of a process, by its id, was ready to run and had no CPU."""
    waited = {}
    for thread in _threads(pid):
        fields = _words(thread / "schedstat")
        if len(fields) > _WAITED:
            waited[int(thread.name)] = int(fields[_WAITED]) / 1e9
    return waited


def resident(pid: int) -> int:
    """The resident memory of a process in bytes, pages that it shares with others included."""
    fields = _words(PROC / str(pid) / "statm")
    return int(fields[_RESIDENT]) * _PAGE if fields else 0


def proportional(pid: int) -> int:
    """The resident memory of a process in bytes; of a page that n processes share, the n-th part.

    So that of several processes can be added. It takes some 10 ms, a thousand times as long as `resident`,
    which is the answer where the kernel does not tell.
    """
    for line in _text(PROC / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return resident(pid)


def killed_for_memory() -> int:
    """How many processes the kernel has killed since it started because memory was short."""
    for line in _text(PROC / "vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def machine_memory() -> int:
    """How many bytes of memory this machine has, or the container that this process is in."""
    limits = (_text(file).strip() for file in _CONTAINER_LIMITS)
    return min([os.sysconf("SC_PHYS_PAGES") * _PAGE, *(int(limit) for limit in limits if limit.isdecimal())])


def _threads(pid: int) -> Iterator[Path]:
    folder = PROC / str(pid) / "task"
    try:
        names = os.listdir(folder)  # noqa: PTH208  iterdir makes no difference but for its time
    except OSError:
        return
    yield from (folder / name for name in names)


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    """The file's text; empty where there is none, as of a process that has ended."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
