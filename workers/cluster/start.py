"""Joins a Ray cluster, or starts one on this machine, without the defaults of Ray that disturb a campaign."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from ray._private import node, ray_constants, services
from ray._private import worker as ray_worker
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # of a compiled module
from ray.job_config import JobConfig

from difftest.ground import processes
from difftest.ground.errors import InfrastructureError
from workers.cluster import connection, guardian, health, instance, silent_agent, token
from workers.isolate import environment_variables, zygotes

WITHOUT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_open_telemetry": "0",
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",
}
"""Environment variables that difftest sets for Ray unless the user has set them.

The first keeps Ray from hiding the GPUs from workers that request none. The second turns off its
OpenTelemetry exporters, which outlive `ray.shutdown` (Ray 2.60), fail every ten seconds and log each failure,
even while the process ends, when the logger is already destroyed. Two whole test runs ended in a segmentation
fault that way, one of them with `OpenTelemetryMetricExporter::Export` in its core. The third keeps Ray from
running workers, and with them every rank, at niceness 15: beside other programs they would get a thirtieth of
their share of the CPU. With the fourth the raylet answers a driver at once, not only when the workers that it
starts ahead of need have registered: one that is killed before that makes `ray.init` wait forever (2.60).
"""

NOT_STARTED = ("start_monitor", "start_log_monitor", "start_api_server")
"""What Ray's node starts beside its own services, and a campaign does not use: three Pythons that import Ray.

They scale clusters, send the workers' logs to the driver, and show a dashboard. With them an instance takes
18 s of CPU time to start, of which they take 10 (Ray 2.60 on 2 cores, 2026-11-25).
"""

LOCAL_ONLY = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}
"""Makes Ray use the loopback address for its node, as it does on systems where it supports no clusters.

Otherwise it listens on every interface.
"""


START_TRIES = 3
"""How often Ray is started here.

On a busy machine its raylet ends itself because another of its processes is late (Ray 2.60).
"""


REGISTERED_SECONDS = 30.0
"""How long Ray's raylet may take to register with its other processes on a busy machine; idle, it takes 2."""

LOOPBACK_SECONDS = 3.0
"""How long this machine may take to connect to itself, without which Ray waits for minutes."""


class _InstalledModules(JobConfig):  # type: ignore[misc]
    """A job whose workers import what is installed, and a checkout of difftest that is run without it.

    Ray would have them look in the driver's working directory first. That may be a corpus from elsewhere,
    with a file `numpy.py`.
    """

    def _runtime_env_has_working_dir(self) -> bool:
        """Where this holds, Ray adds no folder of the driver to the workers' path."""
        return True


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Joins the cluster at `address`, or the one whose job this process is, or starts one on this machine.

    Yields the number of workers to use: `workers`, or as many as the cluster has CPUs. A cluster that is
    started here listens on the loopback interface only, requires a token, and leaves no process and no file
    behind. Raises `InfrastructureError` when there is no cluster at the address, or it requires no token.
    """
    for name, value in WITHOUT.items():
        os.environ.setdefault(name, value)
    ray_worker.print_to_stdstream = _print_to_stderr
    instance.remove_what_is_left()
    address = address or os.environ.get(ray_constants.RAY_ADDRESS_ENVIRONMENT_VARIABLE)
    with _joined(address) if address else _own_instance(workers), health.watched(connection.current()):
        yield workers or max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def _joined(address: str) -> Iterator[None]:
    with token.of_joined_cluster():
        try:
            _init(address)
            token.require_authentication(ray.get_runtime_context().gcs_address)
            connection.begin(None)
            yield
        finally:
            _leave()


@contextmanager
def _own_instance(workers: int | None) -> Iterator[None]:
    with token.of_own_instance(), _local_only(), guardian.watching(), instance.folder() as folder:
        try:
            _start(folder, workers)
            connection.begin(folder)
            yield
        finally:
            if connection.current().ended.is_set():
                instance.end(folder, patience=0.0)
            _leave()
            instance.end(folder, instance.END_SECONDS)


def _start(folder: Path, workers: int | None) -> None:
    _require_loopback()
    for left in reversed(range(START_TRIES)):
        try:
            _init("local", num_cpus=workers, _temp_dir=str(folder))
        except InfrastructureError:
            ray.shutdown()
            instance.end(folder, patience=0.0)
            if not left:
                raise
        else:
            return


def _require_loopback() -> None:
    """Raises `InfrastructureError` where this machine cannot connect to itself."""
    try:
        with (
            socket.create_server((LOOPBACK, 0)) as server,
            socket.create_connection(server.getsockname(), timeout=LOOPBACK_SECONDS),
        ):
            pass
    except OSError as error:
        msg = f"cannot start Ray on this machine: it cannot connect to itself at {LOOPBACK}: {error}"
        raise InfrastructureError(msg) from error


def _registered(gcs_address: str, node_id: str) -> Any:  # noqa: ANN401  what Ray knows of a node
    """Replaces Ray's function, which is called for half a minute though the raylet has ended.

    `ConnectionError` where it has ended, or is too late: Ray calls again after a `RuntimeError`.
    """
    client, node = GcsClient(address=gcs_address), ray.NodeID.from_hex(node_id)
    end = time.monotonic() + REGISTERED_SECONDS
    while client.check_alive([node], timeout=health.ANSWER_SECONDS) != [True]:
        if not processes.has_child(ray_constants.PROCESS_TYPE_RAYLET):
            msg = "its raylet ended while it started"
            raise ConnectionError(msg)
        if time.monotonic() > end:
            msg = f"its raylet did not register within {REGISTERED_SECONDS:g} s"
            raise ConnectionError(msg)
        time.sleep(0.1)
    return _GET_NODE(gcs_address, node_id)


_GET_NODE = services.get_node
LOOPBACK = "127.0.0.1"


def _init(address: str, **own: object) -> None:
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            job_config=_InstalledModules(_py_driver_sys_path=zygotes.checkout()),
            **own,
        )
    except Exception as error:  # Ray raises a bare Exception when a node is late to start
        where = "start Ray on this machine" if address == "local" else f"join the Ray cluster at {address}"
        msg = f"cannot {where}: {error}"
        raise InfrastructureError(msg) from error


def _leave() -> None:
    """Disconnects from Ray; beside the rest of the command where Ray is gone, and would take its time."""
    if connection.current().lost:
        threading.Thread(target=ray.shutdown, name="leave Ray", daemon=True).start()
    else:
        ray.shutdown()


_PRINT = ray_worker.print_to_stdstream


def _print_to_stderr(data: dict[str, Any], ignore_prefix: bool) -> None:  # noqa: FBT001  Ray's own signature
    """Replaces Ray's function, which reports lost workers on standard output whatever `log_to_driver` is.

    Standard output belongs to the commands, which print JSON there. Of the node's own messages the first line
    is kept: the others are the end of a log that says nothing to a user.
    """
    lines = data["lines"] if data["pid"] != "raylet" else [one.partition("\n")[0] for one in data["lines"]]
    _PRINT({**data, "lines": lines, "is_err": True}, ignore_prefix=ignore_prefix)


@contextmanager
def _local_only() -> Iterator[None]:
    """Makes Ray start for this machine alone, and only what `few_processes` says.

    Ray reads the switch when it is imported, so its constant is set here; the processes that it starts read
    the environment variable.
    """
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    waiting = patch.object(services, "get_node", _registered)
    try:
        with environment_variables.set_to(LOCAL_ONLY), few_processes(), waiting:
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters


@contextmanager
def few_processes() -> Iterator[None]:
    """Makes Ray start its nodes without `NOT_STARTED`, and with a silent dashboard agent.

    Ray's own agent would take seconds of CPU to start, and the raylet ends itself when these take longer than
    15 s.
    """
    without: dict[str, Any] = dict.fromkeys(NOT_STARTED, lambda _node, **_: None)
    with patch.multiple(node.Node, **without), patch.object(services, PROGRAM_OF, _program_of):
        yield


PROGRAM_OF = "_build_python_executable_command_memory_profileable"
"""The function with which Ray begins the command of each of its Pythons."""

_PROGRAM_OF = getattr(services, PROGRAM_OF)


def _program_of(component: str, *arguments: Any, **options: Any) -> list[str]:  # noqa: ANN401  Ray's own
    """Replaces Ray's function: its dashboard agent is another program."""
    if component == ray_constants.PROCESS_TYPE_DASHBOARD_AGENT:
        return [sys.executable, "-I", "-S", silent_agent.__file__]
    command: list[str] = _PROGRAM_OF(component, *arguments, **options)
    return command
