"""Runs on a Ray cluster of this machine.

What the cluster lacks is reported at once, and a lost worker is an infrastructure error, never a finding.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from installed_packages import needs
from real_runs import DDP, DEADLINE_SECONDS, small_case
from running_ranks import running_ranks

from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Failure, Symptom, Trace

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
ray = pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from samples import tensor_parallel_case  # noqa: E402

from workers.cluster import dispatch, environments, start  # noqa: E402
from workers.cluster.team import Team  # noqa: E402
from workers.faults import VARIABLE  # noqa: E402
from workers.isolate import zygotes  # noqa: E402

TWO_CLUSTERS = """
import time
from pathlib import Path
import ray
from workers.cluster import dispatch, start

for _ in range(2):  # the first is gone before its agent has answered
    with start.cluster(None, 1):
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        time.sleep(3)
time.sleep(3)
print(sum(file.read_text().count("open_telemetry") for file in logs.glob("python-core-driver-*.log")))
"""


PLANTED = "open({!r}, 'w').close()\nraise ImportError('planted')\n"
"""A module that leaves a file where it is imported."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, as a corpus from elsewhere, with modules that leave the file `imported` there."""
    folder = tmp_path_factory.mktemp("planted")
    for name in ("msgspec", "numpy", "torch", "workers"):
        (folder / f"{name}.py").write_text(PLANTED.format(str(folder / "imported")))
    return folder


@pytest.fixture(scope="module")
def pool(planted: Path) -> Iterator[dispatch.Pool]:
    with contextlib.chdir(planted), start.cluster(None, 1) as workers:
        yield dispatch.Pool(workers, deadline=DEADLINE_SECONDS)


def test_a_worker_returns_the_trace_of_a_run(pool: dispatch.Pool) -> None:
    assert isinstance(pool.execute(small_case(), "oracle"), Trace)


@pytest.mark.usefixtures("pool")
def test_the_workers_of_an_own_instance_share_their_zygotes() -> None:
    def pid(_actor: object) -> int:
        zygote = zygotes.zygote_with(zygotes.BASE)
        zygote.warm()
        return zygote.pid

    team = Team(environments.PLAIN, lambda: 2)
    actors = [team.take(), team.take()]
    pids = {ray.get(actor.__ray_call__.remote(pid)) for actor in actors}
    for actor in actors:
        ray.kill(actor)
    assert len(pids) == 1, "one for both"


def test_workers_have_the_niceness_of_the_driver(pool: dispatch.Pool) -> None:
    """Ray's default of 15 more is a thirtieth of the CPU time beside other programs."""

    def niceness(_actor: object) -> int:
        return os.nice(0)

    team = pool.team("oracle")
    actor = team.take()
    team.give_back(actor)
    assert ray.get(actor.__ray_call__.remote(niceness)) == os.nice(0)


@pytest.mark.usefixtures("pool")
def test_an_own_instance_starts_nothing_that_a_campaign_does_not_use() -> None:
    """Each is a Python that imports Ray, for seconds of CPU time."""
    words = " ".join(word for child in psutil.Process().children() for word in child.cmdline())
    assert "raylet" in words
    assert not [name for name in ("monitor.py", "log_monitor.py", "dashboard.py") if name in words]


def test_workers_import_no_module_of_the_working_directory(pool: dispatch.Pool, planted: Path) -> None:
    assert isinstance(pool.execute(small_case(), "oracle"), Trace)
    assert not (planted / "imported").exists()


def test_a_crash_in_a_run_is_an_outcome_and_the_worker_survives(pool: dispatch.Pool) -> None:
    failure = pool.execute(small_case(), DDP, {VARIABLE: "segmentation_fault"})
    assert isinstance(failure, Failure)
    assert failure.symptom is Symptom.CRASH
    assert isinstance(pool.execute(small_case(), DDP), Trace)


def test_a_worker_refuses_a_case_that_its_backend_does_not_support(pool: dispatch.Pool) -> None:
    cut = tensor_parallel_case()
    assert plugins.load("workers.backends", DDP).unsupported(cut)
    with pytest.raises(UnsupportedError):
        pool.execute(cut, DDP)


def test_a_group_has_an_outcome_or_an_error_for_each_of_its_cases(pool: dispatch.Pool) -> None:
    cases = [small_case(), tensor_parallel_case(), small_case(3)]
    first, refused, last = pool.execute_group([(case, DDP) for case in cases], {})
    assert isinstance(refused, UnsupportedError)
    origins = [one.origin for one in (first, last) if isinstance(one, Trace)]
    assert [origin and origin.case for origin in origins] == [cases[0].id, cases[2].id]


def test_workers_with_a_planted_fault_run_the_cases_of_a_group_alone(pool: dispatch.Pool) -> None:
    outcomes = pool.execute_group([(small_case(), DDP), (small_case(3), DDP)], {VARIABLE: "exception"})
    assert [one.message for one in outcomes if isinstance(one, Failure)] == ["planted failure"] * 2


@pytest.mark.nightly
def test_no_exporter_of_ray_outlives_its_cluster() -> None:
    variables = {**os.environ, "RAY_metrics_report_interval_ms": "100"}
    done = subprocess.run(
        [sys.executable, "-c", TWO_CLUSTERS], capture_output=True, text=True, check=True, env=variables
    )
    assert done.stdout.strip() == "0", "it logs that it cannot export, and may do so while the process ends"


def test_a_framework_that_the_workers_lack_is_reported_at_once(
    pool: dispatch.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins.load("workers.backends", DDP), "PRELOAD", ("torch", "no_such_framework.part"))
    with pytest.raises(InfrastructureError, match=r"torch_ddp.*no_such_framework.*pip install"):
        pool.require(DDP)


def test_more_workers_than_cpus_are_refused(pool: dispatch.Pool) -> None:
    del pool
    with pytest.raises(InfrastructureError, match="64 workers need 64 CPUs; the cluster has 1"):
        dispatch.Pool(64)


def test_a_worker_lost_while_idle_costs_no_run(pool: dispatch.Pool) -> None:
    team = pool.team("oracle")
    actor = team.take()
    ray.kill(actor)
    with pytest.raises(
        ray.exceptions.RayActorError
    ):  # Ray kills in its own time, and would take some more tasks meanwhile
        _call_until_gone(actor)
    team.give_back(actor)
    assert isinstance(pool.execute(small_case(), "oracle"), Trace)


def test_a_worker_lost_in_a_run_is_an_infrastructure_error_and_is_replaced(pool: dispatch.Pool) -> None:
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(pool.execute, small_case(), DDP, {VARIABLE: "hang"})
        ranks = running_ranks()
        _zygote, actor, *_ = ranks[0].parents()
        actor.kill()
        with pytest.raises(
            InfrastructureError, match=f"a worker was lost while it ran case {small_case().id} on {DDP}"
        ):
            running.result()
    for rank in psutil.wait_procs(ranks, timeout=10)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert rank.status() == psutil.STATUS_ZOMBIE, "the ranks end with their worker, reaped or not yet"
    assert isinstance(pool.execute(small_case(), DDP), Trace)


def _call_until_gone(actor: Any) -> NoReturn:  # noqa: ANN401
    while True:
        ray.get(actor.ready.remote(), timeout=DEADLINE_SECONDS)


@pytest.mark.usefixtures("pool")
def test_ray_s_reports_of_lost_workers_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` promises one object on standard output."""
    from ray._private import worker as ray_worker  # noqa: PLC0415  ray may be missing

    ray_worker.print_to_stdstream(
        {"lines": ["A worker died"], "pid": "raylet", "is_err": False}, ignore_prefix=False
    )
    printed = capsys.readouterr()
    assert not printed.out
    assert "A worker died" in printed.err


def test_a_local_cluster_listens_on_loopback_alone(pool: dispatch.Pool) -> None:
    del pool
    listening = {
        (process.name(), connection.laddr.ip)
        for process in (psutil.Process(), *psutil.Process().children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert any(name == "gcs_server" for name, _ in listening)
    assert not {
        (name, ip) for name, ip in listening if not ip_address(ip.removeprefix("::ffff:")).is_loopback
    }


@pytest.mark.parametrize("kind", [ConnectionError, Exception])
def test_a_cluster_that_cannot_be_reached_is_reported_with_its_address(
    pool: dispatch.Pool, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Ray raises a bare `Exception` when a node is late to start."""
    del pool

    def nobody_there(**_: object) -> None:
        msg = "nobody there"
        raise kind(msg)

    monkeypatch.setattr(ray, "init", nobody_there)
    with (
        pytest.raises(InfrastructureError, match=r"cannot join the Ray cluster at 127.0.0.1:1: nobody there"),
        start.cluster("127.0.0.1:1", 1),
    ):
        pass
