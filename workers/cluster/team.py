"""The workers of one environment: requested from Ray, handed out, and replaced when they are lost."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import ray

from difftest.ground.errors import InfrastructureError, NoTimeError, StoppedError
from workers.cluster import connection, environments
from workers.cluster.actors import Crew, Runner
from workers.cluster.environments import Environment

if TYPE_CHECKING:
    from concurrent.futures import Future

POLL_SECONDS = 0.5


class Team:
    """The workers of one environment, as many as `size` says, which may grow.

    A lost worker is replaced. Its replacement joins when the cluster has placed it, however late that is.
    """

    def __init__(self, environment: Environment, size: Callable[[], int]) -> None:
        self._environment, self._size = environment, size
        self._free: queue.Queue[Any] = queue.Queue()
        self._lock = threading.Lock()
        self._standing = self._missing = self._wanted = 0
        self._nodes = dict[Any, tuple[str, ...]]()
        self._last_error = ""
        self.give_back(self.take())  # raises unless the cluster can place at least one

    def take(self) -> Any:  # noqa: ANN401  Ray gives actor handles no type
        """Waits for a free worker and returns it.

        Raises `InfrastructureError` when no worker has been alive for the time that the cluster may take to
        place one, and as `Connection.require` does.
        """
        patience = self._environment.seconds_to_place
        end = time.monotonic() + patience
        while True:
            connection.current().require()
            self._hire()
            with contextlib.suppress(queue.Empty):
                actor = self._free.get(timeout=POLL_SECONDS)
                if self._answers(actor):
                    return actor
                self.lose(actor)
            if self._standing:
                end = time.monotonic() + patience
            elif time.monotonic() > end:
                raise InfrastructureError(self._why_none_is_placed())

    def give_back(self, actor: Any) -> None:  # noqa: ANN401
        """The worker is free again."""
        self._free.put(actor)

    def dismiss(self, actor: Any) -> None:  # noqa: ANN401
        """Ends a worker whose run was cut; no other takes its place."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(actor)
        with self._lock:
            self._standing -= 1
            self._nodes.pop(actor, None)

    def lose(self, actor: Any) -> tuple[str, ...]:  # noqa: ANN401
        """The worker is dead or cannot be used any more; requests another. Returns the ids of its nodes."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(actor)
        with self._lock:
            self._standing -= 1
            self._missing += 1
            places = self._nodes.pop(actor, ())
        self._hire()
        return places

    def _answers(self, actor: Any) -> bool:  # noqa: ANN401
        """Whether an idle worker is still alive. Checked before a run, so that a dead worker costs no run.

        Where the time is over or the connection ended before it could say so, it stays free.
        """
        try:
            connection.current().result(actor.ready.remote(), environments.PLACEMENT_SECONDS)
        except ray.exceptions.RayError:
            return False
        except (NoTimeError, StoppedError):
            self.give_back(actor)
            raise
        return True

    def _hire(self) -> None:
        """Requests the missing workers.

        A worker that dies before it is ready, as on a node that is shutting down, counts as missing again.
        """
        wanted = self._size()
        wanted = min(wanted, self._environment.workers or wanted)
        with self._lock:
            more, self._wanted = max(0, wanted - self._wanted), max(wanted, self._wanted)
            count, self._missing = self._missing + more, 0
        for _ in range(count):
            actor = _hired(self._environment)
            actor.ready.remote().future().add_done_callback(partial(self._joined, actor))

    def _joined(self, actor: Any, placed: "Future[Any]") -> None:  # noqa: ANN401
        error = placed.exception()
        with self._lock:
            if error:
                self._missing, self._last_error = self._missing + 1, str(error)
                return
            self._standing += 1
            # The nodes in the answer of a `Runner`, a pair of node and Python, or of a `Crew`, a list of them
            places = placed.result()
            self._nodes[actor] = tuple(node for node, _ in (places if isinstance(places, list) else [places]))
        self._free.put(actor)

    def _why_none_is_placed(self) -> str:
        seconds = self._environment.seconds_to_place
        resources = {name: amount for name, amount in ray.cluster_resources().items() if ":" not in name}
        last = f"; the last one failed: {self._last_error}" if self._last_error else ""
        return (
            f"the cluster did not place a worker for {self._environment} within {seconds:g} s: "
            f"the cluster has {resources}{last}"
        )


def _hired(environment: Environment) -> Any:  # noqa: ANN401
    if environment.nodes > 1:
        options = {"num_cpus": 0, **environments.runtime()}
        return Crew.options(**options).remote(environment)  # type: ignore[attr-defined]
    instance = connection.current().folder
    shared = instance / "zygotes" if instance else None
    return Runner.options(**_options(environment)).remote(shared)  # type: ignore[attr-defined]


def _options(environment: Environment) -> dict[str, Any]:
    """What a worker's `.options` are in Ray.

    A plain worker holds a CPU of a cluster that was joined, so that the workers of a lost node do not all
    move to the others, and an autoscaler starts nodes for them.
    """
    spread: dict[str, Any] = {"scheduling_strategy": "SPREAD"}
    if environment.plain:
        return spread | environments.runtime() | ({} if connection.current().local else {"num_cpus": 1})
    return spread | environment.options()
