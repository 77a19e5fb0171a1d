"""The limits of a rank, measured on real processes and real files."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from difftest.ground.errors import InfrastructureError, UsageError
from workers.isolate import limits, processes
from workers.isolate.limits import LimitWatch, RunLimits
from workers.isolate.ranks import Ranks

HOLDS = "held = bytearray(256 * 2**20); print(len(held), flush=True); input()"
SHARES = "import os; held = bytearray(256 * 2**20); os.fork(); os.write(1, b'.\\n'); os.read(0, 1)"
"""Two processes that hold the same memory."""


@contextmanager
def holding(*programs: str) -> Iterator[list[int]]:
    """The programs' process ids, once each has written a line."""
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        running = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe))
            for program in programs
        ]
        for process in running:
            assert process.stdout
            process.stdout.readline()
        yield [process.pid for process in running]
        for process in running:
            process.communicate(b"\n\n")


@pytest.mark.long
def test_the_memory_of_all_processes_of_a_run_is_limited_together(tmp_path: Path) -> None:
    with holding(HOLDS, HOLDS) as pids:
        watch = LimitWatch(RunLimits(memory=400 * 2**20), [tmp_path])
        excess = watch.excess(dict(zip(pids, (0, 1), strict=True)))
        one_alone = watch.excess({pids[1]: 1})
    assert excess
    assert excess.kind == "memory limit"
    assert re.fullmatch(r"the ranks held 0\.5\d* GiB of memory; allowed: 0\.391 GiB", excess.message)
    assert one_alone is None


def test_memory_that_processes_share_counts_once_and_that_of_children_counts(tmp_path: Path) -> None:
    with holding(SHARES) as (pid,):
        assert len(processes.with_children([pid])) == 2
        assert sum(map(processes.resident, processes.with_children([pid]))) > 512 * 2**20
        assert LimitWatch(RunLimits(memory=400 * 2**20), [tmp_path]).excess({pid: 0}) is None
        assert LimitWatch(RunLimits(memory=200 * 2**20), [tmp_path]).excess({pid: 0})


@pytest.mark.parametrize(
    ("given", "limit"), [("0.5", 2**29), ("24", 24 * 2**30), ("0", None), ("much", None), ("inf", None)]
)
def test_the_memory_variable_sets_the_limit_of_a_run(
    monkeypatch: pytest.MonkeyPatch, given: str, limit: int | None
) -> None:
    monkeypatch.setenv(limits.MEMORY_VARIABLE, given)
    if limit:
        assert limits.memory_limit() == limit
    else:
        with pytest.raises(
            UsageError, match=f"DIFFTEST_MEMORY is '{given}'; allowed: a number of GiB above 0"
        ):
            limits.memory_limit()


def test_a_run_may_hold_half_of_what_its_machine_or_container_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(limits.MEMORY_VARIABLE, raising=False)
    monkeypatch.setattr(processes, "_CONTAINER_LIMITS", (tmp_path / "2", tmp_path / "1"))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.memory_limit() == machine // 2
    (tmp_path / "2").write_text("max\n")
    assert limits.memory_limit() == machine // 2
    (tmp_path / "1").write_text(f"{2**30}\n")
    assert limits.memory_limit() == 2**29


@pytest.mark.parametrize(("sent", "kills", "kind"), [(9, 1, "out of memory"), (9, 0, None), (15, 1, None)])
def test_a_rank_that_the_kernel_killed_for_memory_is_told_from_one_killed_by_a_person(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sent: int, kills: int, kind: str | None
) -> None:
    (tmp_path / "vmstat").write_text("pgfault 12\noom_kill 3\noom_kill_other 7\n")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    ranks = Ranks(range(1), [tmp_path], statuses={0: -sent})
    (tmp_path / "vmstat").write_text(f"oom_kill {3 + kills}\n")
    message = "because memory was short" if kind else "rank 0 was killed from outside by SIG"
    with pytest.raises(InfrastructureError, match=message) as raised:
        ranks.require_ended_by_itself()
    assert getattr(raised.value, "kind", None) == kind


def test_a_process_beyond_its_memory_limit_is_reported_with_its_rank(tmp_path: Path) -> None:
    with holding(HOLDS) as (pid,):
        excess = LimitWatch(RunLimits(memory=2**27), [tmp_path]).excess({pid: 3})
        roomy = LimitWatch(RunLimits(memory=2**30), [tmp_path]).excess({pid: 3})
    assert excess
    assert (excess.rank, excess.kind) == (3, "memory limit")
    assert "allowed: 0.125 GiB" in excess.message
    assert roomy is None


def test_an_ended_process_uses_no_memory(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert LimitWatch(RunLimits(memory=0), [tmp_path]).excess({process.pid: 0}) is None


def test_output_is_counted_over_all_files_and_the_largest_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank0.err").write_bytes(b"." * 600)
    (tmp_path / "rank12.npz").write_bytes(b"." * 700)
    assert LimitWatch(RunLimits(output=1300), [tmp_path]).excess({}) is None
    excess = LimitWatch(RunLimits(output=1299), [tmp_path]).excess({})
    assert excess
    assert (excess.rank, excess.kind) == (12, "output limit")
    assert "rank12.npz" in excess.message


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.full_disk(tmp_path) is None
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
    assert limits.full_disk(tmp_path) == f"the disk of {tmp_path.parent} is full: 4096 bytes are left"
