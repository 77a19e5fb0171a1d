"""The processor time of a process and what it started, for benchmarks."""

import os
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process and those of its children that have ended have used."""
    return sum(own_and_childrens(pid))


def own_and_childrens(pid: int) -> tuple[float, float]:
    """What a process has used itself, and what those of its children that have ended have."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, childrens = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / TICKS_A_SECOND, childrens / TICKS_A_SECOND
