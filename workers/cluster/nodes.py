"""The nodes of the cluster that this process is connected to: what they have, and which of them are alive."""

import contextlib
import threading
import time
from collections.abc import Collection

import ray

from difftest.ground.errors import StoppedError
from workers.cluster import connection
from workers.cluster.environments import Resources

FRESH_SECONDS = 5.0
"""How old a `Capacity` may be."""


def resources() -> list[Resources]:
    """The resources of every node that is alive."""
    connection.current().require()
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def cpus() -> int:
    """The CPUs of all nodes that are alive."""
    return int(sum(node.get("CPU", 0) for node in resources()))


def any_lost(nodes: Collection[str]) -> bool:
    """Whether one of the nodes with these ids is not alive any more."""
    connection.current().require()
    alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    return not alive.issuperset(nodes)


class Capacity:
    """How many workers a cluster may have: at least `least`, and as many as it has CPUs if it `grows`.

    It never gets smaller: workers of nodes that left wait for others. The nodes are looked up in a thread of
    their own, since a cluster that is gone never answers.
    """

    def __init__(self, least: int, *, grows: bool) -> None:
        self._most, self._grows = least, grows
        self._lock, self._checked = threading.Lock(), time.monotonic()

    def __call__(self) -> int:
        """The number of workers, looked up every few seconds."""
        with self._lock:
            if self._grows and time.monotonic() - self._checked > FRESH_SECONDS:
                self._checked = time.monotonic()
                threading.Thread(target=self._look, name="nodes of Ray", daemon=True).start()
            return self._most

    def _look(self) -> None:
        with contextlib.suppress(StoppedError, ray.exceptions.RayError):
            self._most = max(self._most, cpus())
