"""The end of Ray itself: every run ends at once, and no process and no file stays behind."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from real_runs import DDP, small_case

from difftest import processes
from difftest.errors import StoppedError

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from ray._private import worker as ray_worker  # noqa: E402

from workers.cluster import dispatch, health, instance, start  # noqa: E402
from workers.cluster.connection import Connection  # noqa: E402
from workers.faults import VARIABLE  # noqa: E402


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
    connection = Connection(Path())
    connection.require()
    connection.end("interrupted", 130)
    connection.end("Ray is gone", 3, lost=True)
    with pytest.raises(StoppedError, match="interrupted") as stopped:
        connection.require()
    assert (stopped.value.status, connection.lost) == (130, True)


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
with guardian.watching(), instance.folder() as folder:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(folder, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        folder = Path(running.stdout.readline().strip())
        (left,) = processes.with_variable(instance.VARIABLE, str(folder / "tmp"))
        guardian, _ = sorted(psutil.Process(running.pid).children(), key=lambda child: child.pid)
        running.kill()
    guardian.wait(60)
    assert not left.is_running()
    assert not folder.exists()
