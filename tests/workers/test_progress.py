"""Which runs hang: from samples of what their processes did, on an idle machine and on a busy one."""

import re
import subprocess
import sys
import time
from collections.abc import Iterable

import pytest

from workers.deadlines import longest_seconds
from workers.isolate import processes
from workers.isolate.progress import ProgressSample, RunProgress, busy_seconds, own_seconds

DEADLINE = 3.0
RANKS = (11, 12)


def samples(cpu: float, waited: float, seconds: float, *, stages: bool = False) -> Iterable[ProgressSample]:
    """A sample every quarter of a second; rank 12 uses `cpu` and waits for `waited` CPUs, rank 11 sleeps."""
    for quarter in range(1, int(seconds * 4) + 1):
        yield ProgressSample(
            time=quarter / 4,
            cpu={11: 0.01, 12: cpu * quarter / 4},
            waited={11: 0.0, 12: waited * quarter / 4},
            place=quarter if stages else 0,
        )


def after(
    *, cpu: float = 0.0, waited: float = 0.0, seconds: float = longest_seconds(DEADLINE), stages: bool = False
) -> tuple[str | None, str | None, float]:
    """Why the run hangs, why it is overdue, and when that was noticed."""
    first = ProgressSample(time=0.0, cpu=dict.fromkeys(RANKS, 0.0), waited=dict.fromkeys(RANKS, 0.0), place=0)
    progress, sample = RunProgress(DEADLINE, first), first
    for sample in samples(cpu, waited, seconds, stages=stages):
        progress.take(sample)
        if progress.hang or progress.overdue:
            break
    return progress.hang, progress.overdue, sample.time


@pytest.mark.parametrize(("cpu", "waited"), [(0.0, 0.0), (0.01, 0.0), (0.002, 0.01)])
def test_a_run_that_sleeps_hangs_after_its_deadline_on_a_busy_machine_too(cpu: float, waited: float) -> None:
    hang, overdue, noticed = after(cpu=cpu, waited=waited)
    assert hang == "not finished after 3 s without progress"
    assert not overdue
    assert DEADLINE <= noticed <= DEADLINE + 0.5


def test_a_run_that_works_within_one_stage_has_more_time_than_one_that_sleeps() -> None:
    busy = busy_seconds(DEADLINE)
    assert after(cpu=1.0, seconds=busy - 1)[:2] == (None, None)
    hang, overdue, noticed = after(cpu=1.0)
    assert hang == "not finished after 60 s of work within one stage"
    assert not overdue
    assert noticed == busy


@pytest.mark.parametrize(
    ("deadline", "busy", "longest"), [(1.0, 60.0, 600.0), (60.0, 300.0, 1800.0), (86400.0, 432e3, 2592e3)]
)
def test_the_other_times_grow_with_the_deadline_and_leave_a_compiler_its_time(
    deadline: float, busy: float, longest: float
) -> None:
    assert (busy_seconds(deadline), longest_seconds(deadline)) == (busy, longest)


@pytest.mark.parametrize("waiting", [19.0, 30.0])
def test_a_run_that_waits_for_a_cpu_does_not_hang_and_ends_as_the_machine_s_fault(waiting: float) -> None:
    """The thread works for a twentieth of the time, or less, and waits for the rest."""
    share = 1 / (1 + waiting)
    hang, overdue, noticed = after(cpu=share, waited=1 - share)
    assert hang is None
    assert noticed == longest_seconds(DEADLINE)
    assert overdue
    assert re.fullmatch(r"the machine was too busy: in 600 s the run waited 5\d\d s for a CPU", overdue)


def test_a_run_that_gets_no_cpu_at_all_does_not_hang() -> None:
    assert after(cpu=0.0, waited=1.0)[0] is None


def test_a_run_that_begins_stages_does_not_hang_and_is_asked_for_a_longer_deadline_in_the_end() -> None:
    hang, overdue, _ = after(stages=True)
    assert hang is None
    assert overdue == "the run still got on after 600 s; a longer DIFFTEST_DEADLINE gives it more time"


@pytest.mark.parametrize(
    ("cpu", "waited", "own"),
    [
        (0.0, 0.0, 10.0),
        (10.0, 0.0, 10.0),
        (1.0, 9.0, 1.0),  # one thread
        (2.0, 18.0, 1.0),  # two threads
        (16.0, 0.0, 10.0),  # more than one CPU
        (0.1, 0.9, 9.1),  # sleeps, and waits now and then
        (0.0, 10.0, 0.0),
        (0.0, 50.0, 0.0),
    ],
)
def test_waiting_for_a_cpu_is_not_a_run_s_own_time(cpu: float, waited: float, own: float) -> None:
    assert own_seconds(10.0, cpu, waited) == pytest.approx(own)


COMPUTES = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ninput()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTES!r}])"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_kernel_tells_what_a_process_and_its_children_used() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE) as parent:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            family = processes.with_children([parent.pid])
            if sum(map(processes.cpu_seconds, family)) >= 0.3:
                break
            time.sleep(0.02)
        assert len(family) == 2
        assert family[0] == parent.pid
        assert processes.cpu_seconds(family[1]) >= 0.25
        assert processes.waited_seconds(parent.pid).keys() == {parent.pid}
        assert 0 < processes.proportional(parent.pid) <= processes.resident(parent.pid)
        parent.communicate(b"\n")
    assert processes.with_children([parent.pid]) == [parent.pid]
    assert (processes.cpu_seconds(parent.pid), processes.resident(parent.pid)) == (0.0, 0)
    assert processes.waited_seconds(parent.pid) == {}
