"""Ray carries the work: actors on the cluster's nodes, each with its own warm zygotes, and one case's run at a time on each.

An actor never touches a device; a run's crash therefore never reaches Ray, which could not tell a segmentation fault from an exit and would
try it again. When an actor dies all the same, that is infrastructure: another is hired, which joins once the cluster has placed it, and
the run is given back as an error.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

from difftest import plugins
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.judge.outcome import Outcome
from workers.cluster import environments
from workers.cluster.actors import Crew, Runner
from workers.cluster.environments import Environment
from workers.isolate import environment_variables, limits, sandbox, zygotes

if TYPE_CHECKING:
    from concurrent.futures import Future

OVERHEAD_SECONDS = zygotes.START_SECONDS + 30.0
"""What a run may take beyond its deadline: a zygote's start and the transfer."""

POLL_SECONDS = 0.5

INSTALL = "pip install 'difftest[{extras},cluster]'"
EXTRAS = "xla"
"""What the usual backends need."""

WITHOUT = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_enable_open_telemetry": "0"}
"""What Ray is not to do, unless the user says otherwise: hide the GPUs from workers that ask for none, and export metrics by OpenTelemetry.

Its exporters outlive `ray.shutdown` (2.60), fail every ten seconds, and log that even while the process ends, by a logger that is destroyed
by then: two whole test runs ended in a segmentation fault, one of them with `OpenTelemetryMetricExporter::Export` in its core.
"""

LOCAL_ONLY = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}
"""Makes Ray take the loopback address for its node's, as it does where it knows no clusters; it listens on every interface otherwise."""


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Joins the cluster at `address`, or the one whose job this is, or starts one on this machine; yields the number of workers to use.

    What is started here listens on the loopback interface only. `InfrastructureError` when there is no cluster at the address.
    """
    for name, value in WITHOUT.items():
        os.environ.setdefault(name, value)
    ray_worker.print_to_stdstream = _on_stderr
    address = address or os.environ.get(ray_constants.RAY_ADDRESS_ENVIRONMENT_VARIABLE)
    try:
        with contextlib.nullcontext() if address else _local_only():
            own = {} if address else {"num_cpus": workers, "include_dashboard": False}
            ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        msg = f"cannot join the Ray cluster at {address or 'this machine'}: {error}"
        raise InfrastructureError(msg) from error
    try:
        yield workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


_PRINT = ray_worker.print_to_stdstream


def _on_stderr(data: dict[str, Any], ignore_prefix: bool) -> None:  # noqa: FBT001  Ray's own signature
    """Ray tells of lost workers on standard output, whatever `log_to_driver` is, and there a command's JSON goes."""
    _PRINT({**data, "is_err": True}, ignore_prefix=ignore_prefix)


@contextmanager
def _local_only() -> Iterator[None]:
    """Ray starts without other machines in mind; the switch is read when Ray is imported, and by the processes that it starts."""
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        with environment_variables.set_to(LOCAL_ONLY):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


class Team:
    """The workers of one environment: a lost one is replaced, and its replacement joins when the cluster has placed it, however late."""

    def __init__(self, environment: Environment, size: int) -> None:
        self._environment = environment
        self._free: queue.Queue[Any] = queue.Queue()
        self._lock = threading.Lock()
        self._standing, self._missing = 0, min(size, environment.workers or size)
        self._trouble = ""
        self.give_back(self.take())  # at least one stands, or the cluster cannot do this

    def take(self) -> Any:  # noqa: ANN401  Ray gives actor handles no type
        """A free worker, once there is one. `InfrastructureError` when none has stood for as long as the cluster may take to place one."""
        patience = self._environment.seconds_to_place
        end = time.monotonic() + patience
        while True:
            self._hire()
            with contextlib.suppress(queue.Empty):
                actor = self._free.get(timeout=POLL_SECONDS)
                if _answers(actor):
                    return actor
                self.lose(actor)
            if self._standing:
                end = time.monotonic() + patience
            elif time.monotonic() > end:
                raise InfrastructureError(self._why())

    def give_back(self, actor: Any) -> None:  # noqa: ANN401
        """The worker is free again."""
        self._free.put(actor)

    def lose(self, actor: Any) -> None:  # noqa: ANN401
        """The worker is gone, or of no use any more."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(actor)
        with self._lock:
            self._standing -= 1
            self._missing += 1
        self._hire()

    def _hire(self) -> None:
        """Asks for the workers that are missing; one that died before it stood, as on a node that was about to go, is missing again."""
        with self._lock:
            wanted, self._missing = self._missing, 0
        for _ in range(wanted):
            actor = _hired(self._environment)
            actor.ready.remote().future().add_done_callback(partial(self._joined, actor))

    def _joined(self, actor: Any, placed: "Future[tuple[str, str]]") -> None:  # noqa: ANN401
        error = placed.exception()
        with self._lock:
            if error:
                self._missing, self._trouble = self._missing + 1, str(error)
                return
            self._standing += 1
        self._free.put(actor)

    def _why(self) -> str:
        have = {name: amount for name, amount in ray.cluster_resources().items() if ":" not in name}
        told = f"the cluster did not place a worker for {self._environment} within {self._environment.seconds_to_place:g} s"
        return f"{told}: the cluster has {have}" + (
            f"; the last one failed: {self._trouble}" if self._trouble else ""
        )


class Pool:
    """Teams of up to `workers` actors, one for each environment that is used; `execute` is called from as many threads.

    `places` says which backends run where; by default the file in `DIFFTEST_ENVIRONMENTS`, else what the nodes ask for.
    """

    def __init__(
        self,
        workers: int,
        *,
        deadline: float = sandbox.DEADLINE_SECONDS,
        places: Sequence[Environment] | None = None,
    ) -> None:
        self._deadline, self._workers = deadline, workers
        known = environments.given() if places is None else tuple(places)
        self._places = environments.found(_nodes()) if known is None else known
        self._teams: dict[str, Team] = {}
        self._lock = threading.Lock()
        _require_cpus(workers)
        self.team(ORACLE)

    def team(self, backend: str) -> Team:
        """The workers that run `backend`, hired when first asked for."""
        environment = environments.of(backend, self._places)
        with self._lock:
            if environment.backends not in self._teams:
                self._teams[environment.backends] = Team(environment, self._workers)
            return self._teams[environment.backends]

    def require(self, backend: str) -> None:
        """`InfrastructureError` at once when the workers lack what `backend` needs."""
        module = plugins.load("workers.backends", backend)
        lacking = self._ask(backend, "was asked about", self._deadline, "lacking", module.PRELOAD)
        if lacking:
            packages = ", ".join(sorted({name.partition(".")[0] for name in lacking}))
            install = INSTALL.format(extras=getattr(module, "ON_REQUEST", EXTRAS))
            msg = f"backend {backend!r} needs {packages}, which the workers do not have: {install}"
            raise InfrastructureError(msg)

    def execute(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """Runs `case` on the next free actor. `InfrastructureError` when the actor, its node or Ray fails."""
        asked = (case.to_json(), backend, self._deadline, dict(options or {}))
        longest = self._deadline * limits.work(options or {})
        outcome: Outcome = self._ask(backend, f"ran case {case.id} on", longest, "run", *asked)
        return outcome

    def _ask(self, backend: str, doing: str, deadline: float, method: str, *arguments: Any) -> Any:  # noqa: ANN401
        """What a free actor's method says; whatever Ray itself says instead costs the actor."""
        team = self.team(backend)
        actor = team.take()
        try:
            told = ray.get(getattr(actor, method).remote(*arguments), timeout=deadline + OVERHEAD_SECONDS)
        except ray.exceptions.RayTaskError as error:
            team.give_back(actor)
            raise _cause(error) from error
        except ray.exceptions.RayError as error:
            team.lose(actor)
            msg = f"a worker was lost while it {doing} {backend}: {error}"
            raise InfrastructureError(msg) from error
        team.give_back(actor)
        return told


def _answers(actor: Any) -> bool:  # noqa: ANN401
    """Whether an idle worker still stands: one that died meanwhile costs no run."""
    try:
        ray.get(actor.ready.remote(), timeout=environments.PLACEMENT_SECONDS)
    except ray.exceptions.RayError:
        return False
    return True


def _hired(environment: Environment) -> Any:  # noqa: ANN401
    if environment.nodes > 1:
        return Crew.options(num_cpus=0, **environments.runtime()).remote(environment)  # type: ignore[attr-defined]
    return Runner.options(**_options(environment)).remote()  # type: ignore[attr-defined]


def _options(environment: Environment) -> dict[str, Any]:
    """What Ray is asked for. A plain worker holds a CPU where there are several nodes, lest a lost node's crowd onto the others."""
    spread: dict[str, Any] = {"scheduling_strategy": "SPREAD"}
    if environment.plain:
        return spread | environments.runtime() | ({"num_cpus": 1} if len(_nodes()) > 1 else {})
    return spread | environment.options()


def _nodes() -> list[environments.Resources]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _require_cpus(workers: int) -> None:
    have = int(ray.cluster_resources().get("CPU", 0))
    if have < workers:
        msg = f"{workers} workers need {workers} CPUs; the cluster has {have}: ask for fewer workers or add nodes"
        raise InfrastructureError(msg)


def _cause(error: Any) -> Exception:  # noqa: ANN401
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, InfrastructureError) else InfrastructureError(str(error))
