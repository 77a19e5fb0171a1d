"""Runs in fresh processes: whatever the ranks do is returned as data, and no process outlives its run."""

import contextlib
import queue
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

import msgspec
import psutil
import pytest
from real_runs import DDP, DEADLINE_SECONDS, small_case
from running_ranks import is_rank
from samples import a_failure

from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.ground.errors import InfrastructureError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.noise import SAMPLES, SAMPLES_WHEN_IN_DOUBT
from difftest.judge.outcome import Failure, Symptom, Trace
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.faults import VARIABLE, all_faults  # noqa: E402
from workers.isolate import failures, run_folder, sandbox  # noqa: E402
from workers.isolate.limits import RunLimits  # noqa: E402
from workers.isolate.messages import Gone, OfRun  # noqa: E402
from workers.isolate.ranks import Ranks  # noqa: E402

WAITS_IN = {"hang": "process.py:<lambda>", "deadlock": "distributed_c10d.py:barrier"}
"""The frame of the lowest rank that does not end: in the planted sleep, or waiting for the other rank."""


def spoiled(fault: str) -> Failure:
    assert fault in all_faults()
    outcome = sandbox.run(small_case(), DDP, deadline=DEADLINE_SECONDS, options={VARIABLE: fault})
    assert isinstance(outcome, Failure), outcome
    return outcome


@pytest.mark.parametrize(
    ("fault", "symptom", "kind"),
    [
        ("abort", Symptom.CRASH, "SIGABRT"),
        ("segmentation_fault", Symptom.CRASH, "SIGSEGV"),
        ("exception", Symptom.EXCEPTION, "RuntimeError"),
        ("hang", Symptom.HANG, "deadline"),
        ("deadlock", Symptom.HANG, "deadline"),
    ],
)
def test_every_kind_of_failure_is_returned_as_data(fault: str, symptom: Symptom, kind: str) -> None:
    failure = spoiled(fault)
    assert (failure.symptom, failure.kind) == (symptom, kind)
    assert failure.stage in (Stage.BACKWARD, Stage.UPDATE)
    assert failure.environment["torch"] == torch.__version__
    assert "device" not in failure.environment, "it died before it could report it"
    if symptom is Symptom.HANG:
        assert failure.frame == WAITS_IN[fault]


def test_a_failure_has_a_frame_of_the_framework_and_none_of_this_project() -> None:
    from workers.exceptions import explain  # noqa: PLC0415  torch may be missing

    def frame(call: Callable[[], object]) -> str:
        with pytest.raises((AttributeError, TypeError)) as raised:
            call()
        return explain(raised.value, Stage.FORWARD, 0, 0).frame

    assert frame(lambda: torch.nn.Module().missing) == "torch/nn/modules/module.py:__getattr__"
    assert frame(lambda: sandbox.run(None, DDP)) == ""  # type: ignore[arg-type]
    assert spoiled("exception").frame == ""


def test_the_log_of_a_crash_names_the_signal() -> None:
    assert "Segmentation fault" in spoiled("segmentation_fault").log


def test_a_run_after_a_crash_succeeds() -> None:
    spoiled("segmentation_fault")
    assert isinstance(sandbox.run(small_case(), DDP), Trace)


def test_no_process_outlives_a_run() -> None:
    spoiled("hang")
    ranks = list(filter(is_rank, psutil.Process().children(recursive=True)))
    gone, alive = psutil.wait_procs(ranks, timeout=5)
    assert not alive, gone


def zygotes() -> list[psutil.Process]:
    """The first zygote of this process, while it lives: the others are forked from it."""
    return [child for child in psutil.Process().children() if "workers.zygote" in child.cmdline()]


def ranks_of(hanging: "Future[object]", count: int = 2) -> list[psutil.Process]:
    """Wait until all processes of a run that hangs exist, and return them."""
    while not hanging.done():
        ranks = [rank for zygote in zygotes() for rank in zygote.children() if is_rank(rank)]
        if len(ranks) == count:
            return ranks
        time.sleep(0.05)
    pytest.fail(f"the run ended by itself: {hanging.result()}")


@pytest.fixture
def hanging() -> Iterator["Future[object]"]:
    """A run of two ranks that hang, with a deadline of a minute."""
    sandbox.run(small_case(), DDP)  # starts the zygote
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(sandbox.run, small_case(), DDP, deadline=60.0, options={VARIABLE: "hang"})


def test_a_zygote_killed_between_runs_is_replaced_and_no_run_fails() -> None:
    sandbox.run(small_case(), DDP)
    for zygote in zygotes():
        zygote.kill()
        zygote.wait()
    assert isinstance(sandbox.run(small_case(), DDP), Trace)


def test_a_zygote_killed_during_a_run_is_an_infrastructure_error_and_ends_its_ranks(
    hanging: "Future[object]",
) -> None:
    ranks = ranks_of(hanging)
    for zygote in zygotes():
        zygote.kill()
    with pytest.raises(InfrastructureError, match="the process that forks workers died during a run"):
        hanging.result(timeout=DEADLINE_SECONDS)
    assert not psutil.wait_procs(ranks, timeout=5)[1]
    assert isinstance(sandbox.run(small_case(), DDP), Trace)


def test_an_unresponsive_zygote_is_an_infrastructure_error_and_is_replaced() -> None:
    sandbox.run(small_case(), DDP)
    for zygote in zygotes():
        zygote.suspend()
    with pytest.raises(InfrastructureError, match="forked 0 of 2 ranks in 1 s"):
        sandbox.run(small_case(), DDP, deadline=1.0)
    assert isinstance(sandbox.run(small_case(), DDP), Trace)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_rank_killed_from_outside_is_an_infrastructure_error(
    hanging: "Future[object]", sent: signal.Signals
) -> None:
    ranks_of(hanging)[1].send_signal(sent)
    with pytest.raises(InfrastructureError, match=f"killed from outside by {sent.name}"):
        hanging.result(timeout=DEADLINE_SECONDS)


def test_a_rank_above_the_memory_limit_is_ended_and_recorded() -> None:
    failure = sandbox.run(small_case(), DDP, allowed=RunLimits(memory=2**25))
    assert isinstance(failure, Failure)
    assert (failure.symptom, failure.kind) == (Symptom.CRASH, "memory limit")
    assert re.match(r"the rank held 0\.\d+ GiB of memory; allowed: 0\.0312 GiB", failure.message)


def test_a_run_above_the_output_limit_is_ended_and_recorded() -> None:
    failure = sandbox.run(small_case(), DDP, allowed=RunLimits(output=8), options={VARIABLE: "hang"})
    assert isinstance(failure, Failure)
    assert (failure.symptom, failure.kind) == (Symptom.CRASH, "output limit")
    assert failure.environment["torch"] == torch.__version__


def test_a_rank_that_is_forked_after_its_run_has_ended_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look at this run is after one answer of the zygote, and finds more memory than is allowed."""
    monkeypatch.setattr(sandbox, "own_folder", lambda _: contextlib.nullcontext(tmp_path))  # stays
    failure = sandbox.run(small_case(), DDP, allowed=RunLimits(memory=1), options={VARIABLE: "hang"})
    assert isinstance(failure, Failure)
    assert failure.kind == "memory limit"
    monkeypatch.undo()
    sandbox.run(small_case(), DDP)  # forked later
    ranks = list(filter(is_rank, psutil.Process().children(recursive=True)))
    gone, alive = psutil.wait_procs(ranks, timeout=5)
    assert not alive, gone


def test_nobody_waits_for_the_ranks_of_a_zygote_that_has_died(tmp_path: Path) -> None:
    ranks, silent = Ranks(range(2), [tmp_path]), queue.Queue[OfRun]()
    with pytest.raises(InfrastructureError):
        ranks.record(Gone())
    assert ranks.know_forked(silent), "the answer is at hand: its ranks died with it"


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files go to a disk with two free pages."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    sandbox.run(small_case(), DDP)  # starts the zygote
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)  # noqa: S607


def test_a_full_disk_is_an_infrastructure_error(full_disk: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"No space left on device|is full"):
        sandbox.run(small_case(), DDP)
    assert not list(full_disk.iterdir())


def test_the_ranks_of_a_run_listen_only_on_loopback(hanging: "Future[object]") -> None:
    ranks = ranks_of(hanging)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (
        sockets := [
            c for rank in ranks for c in rank.net_connections("inet") if c.status == psutil.CONN_LISTEN
        ]
    ):
        assert time.monotonic() < deadline, "gloo listens somewhere"
        time.sleep(0.05)
    assert {ip_address(socket.laddr.ip).is_loopback for socket in sockets} == {True}
    for rank in ranks:
        rank.kill()


def test_no_rank_inherits_a_socket_or_another_file_of_its_zygote(hanging: "Future[object]") -> None:
    rank = ranks_of(hanging, 2)[0]
    while "rank" not in opened(rank.pid).get(1, ""):
        time.sleep(0.05)
    zygote, own = opened(rank.ppid()), opened(rank.pid)
    rank.kill()
    assert own[0] == "/dev/null"
    sockets = {name for name in zygote.values() if name.startswith("socket")}
    assert len(sockets) >= 4, "it listens, knows when a child ended, and has a client"
    assert not sockets & {*own.values()}


def opened(pid: int) -> dict[int, str]:
    """The open files of a process, by their numbers."""
    names = {}
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names[int(file.name)] = str(file.readlink())
    return names


def test_no_rank_inherits_a_secret_or_imports_a_module_named_by_a_cases_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A path is a label: no process imports `antigravity`, which would open a browser."""
    monkeypatch.setenv("DIFFTEST_TEST_TOKEN", "hush")
    for zygote in zygotes():
        zygote.kill()
        zygote.wait()
    assert isinstance(sandbox.run(msgspec.structs.replace(small_case(), path="antigravity"), DDP), Trace)
    assert zygotes()
    assert not [name for zygote in zygotes() for name in zygote.environ() if "TOKEN" in name]


def test_the_oracle_measures_its_noise() -> None:
    truth = sandbox.run(small_case(), "oracle")
    assert isinstance(truth, Trace)
    assert len(truth.noise) == len(truth.steps)
    assert truth.events.in_range
    alone = small_case().unsharded().layout.mesh
    for key, deviation in truth.noise[0].items():
        size = abs(truth.steps[0][key].full(alone)).max()
        assert (deviation.full(alone) < 1e-5 * size).all()
        assert deviation.full(alone).max() > 0


def test_the_deadline_grows_with_the_number_of_noise_samples() -> None:
    failure = sandbox.run(small_case(), DDP, deadline=0.25, options={VARIABLE: "hang", **MORE_SAMPLES})
    assert isinstance(failure, Failure)
    assert failure.kind == "deadline"
    assert f"after {0.25 * SAMPLES_WHEN_IN_DOUBT / SAMPLES:g} s" in failure.message


def test_a_repeated_run_has_the_same_bits() -> None:
    assert same_bits(sandbox.run(small_case(4), DDP), sandbox.run(small_case(4), DDP))


def test_the_versions_of_a_rank_are_read_after_it_ended_and_may_be_empty(
    tmp_path: Path,
) -> None:
    run_folder.write_versions(tmp_path, 0, {"torch": "2.9.0"})
    (tmp_path / "rank1.versions").touch()
    assert [run_folder.versions(tmp_path, rank) for rank in range(3)] == [{"torch": "2.9.0"}, {}, {}]


@pytest.mark.parametrize("rest", ["Segmentation fault\n\nThread 0x1", "\nF\n"])
def test_a_crash_has_its_signal_where_another_thread_cut_the_heading_off(tmp_path: Path, rest: str) -> None:
    run_folder.log_file(tmp_path, 0).write_text(f"Fatal Python error: {rest}")
    failure = failures._failure(tmp_path, 0, -signal.SIGSEGV)  # noqa: SLF001
    assert (failure.kind, failure.message) == ("SIGSEGV", "Fatal Python error: Segmentation fault")


def test_the_lowest_rank_with_the_first_failure_is_reported_and_no_consequence(tmp_path: Path) -> None:
    of_ranks = {
        0: a_failure(kind="ConnectionError"),
        1: a_failure(message="on 1"),
        2: a_failure(message="on 2"),
        3: a_failure(kind="KeyError"),
    }
    for rank, failure in of_ranks.items():
        run_folder.write(tmp_path, rank, failure)
    statuses = dict.fromkeys(of_ranks, 0)
    shown = [failures.representative(tmp_path, first, statuses) for first in range(4)]
    assert [failure.message for failure in shown] == ["size 3 of dim 1", "on 1", "on 1", "size 3 of dim 1"]
    assert [failure.kind for failure in shown] == [
        "ConnectionError",
        "RuntimeError",
        "RuntimeError",
        "KeyError",
    ]


def test_a_rank_that_lost_its_peer_is_no_cause_even_where_it_failed_earlier(tmp_path: Path) -> None:
    lost = a_failure(message="[gloo/transport/tcp/pair.cc:519] Connection closed by peer [127.0.0.1]:38231")
    run_folder.write(tmp_path, 0, lost, at=1)
    run_folder.write(tmp_path, 1, lost, at=2)
    run_folder.write(tmp_path, 2, a_failure(kind="IndexError"), at=3)
    assert failures.first_failed(tmp_path, {0: 0, 1: 0, 2: 0}) == 2
    assert failures.first_failed(tmp_path, {0: 0, 1: 0}) == 0, "where all lost one, it is the first"
