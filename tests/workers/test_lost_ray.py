"""The end of Ray itself: every run ends at once, and no process and no file stays behind."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from installed_packages import needs
from real_runs import DDP, small_case

from difftest.ground import processes
from difftest.ground.errors import InfrastructureError, NoTimeError, StoppedError

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

import ray  # noqa: E402
from ray._private import worker as ray_worker  # noqa: E402

from workers.cluster import connection, dispatch, health, instance, start  # noqa: E402
from workers.cluster.connection import Connection  # noqa: E402
from workers.faults import VARIABLE  # noqa: E402


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Frees here what Ray knew of running processes: Python warns of them in whatever test frees it."""
    yield
    gc.collect()


@pytest.mark.parametrize("kind", ["raylet", pytest.param("gcs_server", marks=pytest.mark.nightly)])
def test_when_ray_ends_every_run_ends_at_once_and_nothing_stays(kind: str) -> None:
    with (  # noqa: PT012  what ends is the run inside
        pytest.raises(StoppedError, match=f"Ray is gone: its {kind} ended") as stopped,
        start.cluster(None, 1) as workers,
    ):
        folder = Path(ray_worker._global_node.get_temp_dir_path())  # noqa: SLF001  Ray tells it nobody else
        pool = dispatch.Pool(workers)
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(pool.execute, small_case(), DDP, {VARIABLE: "hang"}) for _ in range(2)]
            health.own_processes()[kind].kill()
            for run in running:
                run.result()
    assert stopped.value.status == 3
    assert not folder.exists()
    assert not [one for one in psutil.Process().children(recursive=True) if folder.name in str(one.cmdline())]


def test_the_first_reason_for_the_end_of_a_connection_counts() -> None:
    one = Connection(Path())
    one.require()
    one.end("interrupted", 130)
    one.end("Ray is gone", 3, lost=True)
    with pytest.raises(StoppedError, match="interrupted") as stopped:
        one.require()
    assert (stopped.value.status, one.lost) == (130, True)


def test_a_process_of_an_instance_is_ended_though_its_parent_ended_first() -> None:
    sleeper = "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(600)"
    with instance.folder() as folder:
        subprocess.run([sys.executable, "-c", sleeper], check=True)
        (orphan,) = processes.with_variable(instance.VARIABLE, str(folder / "tmp"))
        instance.end(folder, patience=0.0)
        assert not orphan.is_running()


def test_the_guardian_of_a_killed_driver_ends_its_instance_and_removes_its_folder(tmp_path: Path) -> None:
    driver = """
import subprocess, sys, time
from workers.cluster import guardian, instance
left = "import time; print('begun', flush=True); time.sleep(600)"  # its environment can be read from then on
with guardian.watching(), instance.folder() as folder:
    process = subprocess.Popen([sys.executable, "-c", left], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    print(folder, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            folder = Path(running.stdout.readline().strip())
            (left,) = processes.with_variable(instance.VARIABLE, str(folder / "tmp"))
            guardian, _ = sorted(psutil.Process(running.pid).children(), key=lambda child: child.pid)
        finally:
            running.kill()
    guardian.wait(60)
    assert not left.is_running()
    assert not folder.exists()


def test_a_raylet_that_ends_while_ray_starts_costs_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    killed, real = list[int](), start._registered  # noqa: SLF001  what waits for the raylet

    def registered(*arguments: str) -> object:
        if not killed:
            (raylet,) = [one for one in psutil.Process().children() if one.name() == "raylet"]
            raylet.kill()
            killed.append(raylet.pid)
            with pytest.raises(ConnectionError, match="its raylet ended while it started"):
                real(*arguments)
            msg = "as Ray sees it"
            raise ConnectionError(msg)
        return real(*arguments)

    monkeypatch.setattr(start, "_registered", registered)
    with start.cluster(None, 1) as workers:
        assert workers == 1
    assert killed


def test_without_a_loopback_interface_ray_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> object:
        raise TimeoutError("timed out")  # noqa: EM101, TRY003  as the kernel says it

    monkeypatch.setattr("socket.create_connection", unreachable)
    monkeypatch.setattr(start, "_init", lambda *_, **__: pytest.fail("Ray is started"))
    with (
        pytest.raises(InfrastructureError, match=r"cannot connect to itself at 127\.0\.0\.1: timed out"),
        start.cluster(None, 1),
    ):
        pass


def test_a_call_that_waits_is_cut_at_the_end_of_the_time() -> None:
    one = Connection(Path())
    one.cut = time.monotonic() + 3600
    one.require()
    one.cut = 0.0
    with pytest.raises(NoTimeError, match="cut"):
        one.require()


def test_a_run_in_flight_is_cut_and_its_worker_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with start.cluster(None, 1) as workers, ThreadPoolExecutor(1) as thread:
        pool = dispatch.Pool(workers)
        team, hired = pool.team(DDP), list[Any]()
        take, began = team.take, threading.Event()

        def taking() -> Any:  # noqa: ANN401  Ray gives actor handles no type
            hired.append(take())
            began.set()
            return hired[-1]

        monkeypatch.setattr(team, "take", taking)
        running = thread.submit(pool.execute, small_case(), DDP, {VARIABLE: "hang"})
        assert began.wait(60.0)
        connection.current().cut = 0.0
        with pytest.raises(NoTimeError):
            running.result()
        with pytest.raises(NoTimeError):
            pool.execute(small_case(), DDP)
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(hired[0].ready.remote(), timeout=60.0)
        assert len(hired) == 1


def test_a_worker_is_free_again_where_the_time_ends_before_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start.cluster(None, 1) as workers:
        team = dispatch.Pool(workers).team(DDP)
        one = connection.current()

        def over(*_: object) -> None:
            raise NoTimeError

        with monkeypatch.context() as late:
            late.setattr(one, "result", over)
            with pytest.raises(NoTimeError):
                team.take()
        assert team.take()
