"""Ray carries the work: actors on the cluster's nodes, each with its own warm zygotes, and one case's run at a time on each.

An actor never touches a device; a run's crash therefore never reaches Ray, which could not tell a segmentation fault from an exit and would
try it again. When an actor dies all the same, that is infrastructure: it is replaced and its run is given back as an error.
"""

import importlib.util
import os
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from difftest import plugins
from difftest.case import Case
from difftest.errors import InfrastructureError
from difftest.noise import SAMPLES, SAMPLES_VARIABLE
from difftest.outcome import Outcome
from workers import sandbox

PLACEMENT_SECONDS = 60.0
"""How long the cluster may take to place an actor before its lack of resources is called an error."""

OVERHEAD_SECONDS = sandbox.START_SECONDS + 30.0
"""What a run may take beyond its deadline: a zygote's start and the transfer."""

INSTALL = "pip install 'difftest[xla,cluster]'"


@ray.remote(max_restarts=0, max_task_retries=0)
class Runner:
    """Runs sandboxed cases on one node, one after another."""

    def ready(self) -> str:
        """Answers once the actor stands; the node's name."""
        return os.uname().nodename

    def lacking(self, modules: tuple[str, ...]) -> list[str]:
        """The modules among `modules` that this node's Python does not have."""
        return [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]

    def run(self, case: bytes, backend: str, deadline: float, options: dict[str, str]) -> Outcome:
        """One run; `case` as canonical JSON."""
        return sandbox.run(Case.from_json(case), backend, deadline=deadline, options=options)


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Joins the cluster at `address`, or starts one on this machine; yields the number of workers to use.

    `InfrastructureError` when there is no cluster at the address.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    own = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        msg = f"cannot join the Ray cluster at {address or 'this machine'}: {error}"
        raise InfrastructureError(msg) from error
    try:
        yield workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


class Pool:
    """`workers` actors and the queue of those that are free; `execute` is called from as many threads."""

    def __init__(self, workers: int, *, deadline: float = sandbox.DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._free: queue.Queue[Any] = queue.Queue()
        _require_cpus(workers)
        actors = [Runner.remote() for _ in range(workers)]  # type: ignore[attr-defined]
        for actor in actors:
            _wait_for(actor)
            self._free.put(actor)

    def require(self, backend: str) -> None:
        """`InfrastructureError` at once when the workers lack what `backend` needs."""
        actor = self._free.get()
        try:
            lacking = ray.get(actor.lacking.remote(plugins.load("workers.backends", backend).PRELOAD))
        finally:
            self._free.put(actor)
        if lacking:
            packages = ", ".join(sorted({module.partition(".")[0] for module in lacking}))
            msg = f"backend {backend!r} needs {packages}, which the workers do not have: {INSTALL}"
            raise InfrastructureError(msg)

    def execute(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """Runs `case` on the next free actor. `InfrastructureError` when the actor, its node or Ray fails."""
        actor, deadline = self._free.get(), self._deadline * _work(options or {})
        try:
            reference = actor.run.remote(case.to_json(), backend, deadline, dict(options or {}))
            outcome: Outcome = ray.get(reference, timeout=deadline + OVERHEAD_SECONDS)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError, ray.exceptions.ObjectLostError) as error:
            ray.kill(actor)
            actor = Runner.remote()  # type: ignore[attr-defined]
            msg = f"a worker was lost while it ran case {case.id} on {backend}: {error}"
            raise InfrastructureError(msg) from error
        except ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        finally:
            self._free.put(actor)
        return outcome


def _work(options: Mapping[str, str]) -> float:
    """How many times the usual work a run does: an oracle in doubt simulates rounding many times more often."""
    return max(1.0, int(options.get(SAMPLES_VARIABLE, SAMPLES)) / SAMPLES)


def _require_cpus(workers: int) -> None:
    have = int(ray.cluster_resources().get("CPU", 0))
    if have < workers:
        msg = f"{workers} workers need {workers} CPUs; the cluster has {have}: ask for fewer workers or add nodes"
        raise InfrastructureError(msg)


def _wait_for(actor: Any) -> None:  # noqa: ANN401  Ray gives actor handles no type
    try:
        ray.get(actor.ready.remote(), timeout=PLACEMENT_SECONDS)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError) as error:
        msg = f"the cluster did not place a worker within {PLACEMENT_SECONDS:g} s: {error}"
        raise InfrastructureError(msg) from error


def _cause(error: Any) -> Exception:  # noqa: ANN401
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, InfrastructureError) else InfrastructureError(str(error))
