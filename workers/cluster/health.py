"""Notices that Ray is gone: a thread looks at the processes of an own instance, or asks a joined cluster."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

from difftest.ground.errors import InfrastructureError
from workers.cluster.connection import Connection

EVERY_SECONDS = 1.0
"""How often the thread looks."""

ANSWER_SECONDS = 3.0
"""How long a cluster may take to answer one question."""

LOST_AFTER_SECONDS = 20.0
"""How long a cluster that was joined may leave all questions without an answer, as while it is busy."""

NEEDED = (ray_constants.PROCESS_TYPE_GCS_SERVER, ray_constants.PROCESS_TYPE_RAYLET)
"""The processes of an own instance without which no work goes on."""


@contextmanager
def watched(connection: Connection) -> Iterator[None]:
    """Ends `connection` when Ray is gone, until the context ends."""
    done = threading.Event()
    watch = _watch_own_instance if connection.local else _watch_joined_cluster
    thread = threading.Thread(target=watch, args=(connection, done), name="health of Ray", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(ANSWER_SECONDS)


def own_processes() -> dict[str, Any]:
    """The processes of Ray that this process started, as `subprocess.Popen` by their kind in Ray's words."""
    node = ray_worker._global_node  # noqa: SLF001  Ray tells nobody else
    started = node.all_processes if node is not None else {}
    return {kind: process.process for kind, processes in started.items() for process in processes}


def _watch_own_instance(connection: Connection, done: threading.Event) -> None:
    processes = own_processes()
    while not done.wait(EVERY_SECONDS):
        for kind in NEEDED:
            if kind in processes and processes[kind].poll() is not None:
                status = processes[kind].returncode
                connection.end(
                    f"Ray is gone: its {kind} ended with status {status}",
                    InfrastructureError.status,
                    lost=True,
                )
                return


def _watch_joined_cluster(connection: Connection, done: threading.Event) -> None:
    client, node = (
        ray_worker.global_worker.gcs_client,
        ray.NodeID.from_hex(ray.get_runtime_context().get_node_id()),
    )
    answered = time.monotonic()
    while not done.wait(EVERY_SECONDS):
        try:
            alive = client.check_alive([node], timeout=ANSWER_SECONDS)
        except ray.exceptions.RayError:
            alive = None
        if alive is not None:
            answered = time.monotonic()
        if alive == [False]:
            connection.end("Ray's node on this machine is gone", InfrastructureError.status, lost=True)
            return
        if time.monotonic() - answered > LOST_AFTER_SECONDS:
            seconds = time.monotonic() - answered
            connection.end(
                f"the Ray cluster has not answered for {seconds:.0f} s", InfrastructureError.status, lost=True
            )
            return
