"""Runs cases on a Ray cluster, whose nodes have actors that run one case at a time.

The actors of an own instance share their warm zygotes; in a joined cluster each has its own. An actor never
touches a device, so a crash in a run never reaches Ray, which could not tell a segmentation fault from an
exit and would run the case again. When an actor dies all the same, that is infrastructure: another actor is
requested, which joins once the cluster has placed it, and the run ends with an error. When its node dies, the
run may be why.
"""

import copy
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import ray

from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.ground import installed
from difftest.ground.errors import NODE_LOST, InfrastructureError, LethalError, NoTimeError
from difftest.ground.plugins import IN
from difftest.judge.outcome import Origin, Outcome
from workers import backends, faults
from workers.cluster import connection, environments, nodes
from workers.cluster.environments import Environment
from workers.cluster.team import Team
from workers.deadlines import DEADLINE_SECONDS, longest_seconds
from workers.isolate import limits, zygotes
from workers.isolate.answers import new_request, require_answer

OVERHEAD_SECONDS = zygotes.START_SECONDS + 30.0
"""How much longer than its run a call may take: a zygote's start and the transfer."""

RUNS_AT_MOST = 2
"""How often a case of a group runs: a second time where it fails after others in the same processes."""

INSTALL = "pip install -e '.[{extras},cluster]'"
EXTRAS = "xla"
"""What the usual backends need."""

REASON_SECONDS = 30.0
"""How long Ray may take to notice that the node of an actor died which does not answer."""

ON_ITS_NODE = "its node died while the case ran on it"
"""The message of a `LethalError`, without the node's name: it is part of a finding's identity."""


class Pool:
    """Teams of up to `workers` actors, one team for each environment that is used.

    A pool that `grows` has more where the cluster has more CPUs than that, as when nodes join. `execute` is
    called from as many threads as there are workers. `places` says which backends run where; the default is
    the file in `DIFFTEST_ENVIRONMENTS`, or without one what the nodes' accelerators imply.
    """

    def __init__(
        self,
        workers: int,
        *,
        deadline: float = DEADLINE_SECONDS,
        places: Sequence[Environment] | None = None,
        grows: bool = False,
    ) -> None:
        self._deadline, self.capacity = (
            deadline,
            nodes.Capacity(workers, grows=grows and not connection.current().local),
        )
        configured = environments.configured() if places is None else tuple(places)
        self._places = environments.by_accelerators(nodes.resources()) if configured is None else configured
        self._teams: dict[str, Team] = {}
        self._lock = threading.Lock()
        # a cluster that is not of this machine alone may grow
        if connection.current().local and (cpus := nodes.cpus()) < workers:
            need = f"{workers} workers need {workers} CPUs; the cluster has {cpus}"
            msg = f"{need}: ask for fewer workers or add nodes"
            raise InfrastructureError(msg)
        self.team(ORACLE)

    def within(self, deadline: float) -> "Pool":
        """The same workers, which end each run after `deadline` seconds."""
        pool = copy.copy(self)
        pool._deadline = deadline  # noqa: SLF001  another of the same class
        return pool

    def team(self, backend: str) -> Team:
        """The workers that run `backend`, requested at the first call."""
        environment = environments.of(backend, self._places)
        with self._lock:
            if environment.backends not in self._teams:
                self._teams[environment.backends] = Team(environment, self.capacity)
            return self._teams[environment.backends]

    def require(self, backend: str) -> None:
        """Raises `InfrastructureError` at once when the workers lack a package that `backend` needs."""
        module = backends.load(backend)
        doing = "looked for the packages of"
        missing = self._call(backend, doing, self._deadline, "missing_modules", module.PRELOAD)
        if missing:
            packages = ", ".join(sorted({name.partition(".")[0] for name in missing}))
            install = INSTALL.format(extras=module.PROFILE.extras or EXTRAS)
            msg = f"backend {backend!r} needs {packages}, which the workers do not have: {install}"
            raise InfrastructureError(msg)

    def execute(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """Runs `case` on the next free actor.

        Raises `InfrastructureError` when the actor or Ray fails, when the outcome is of another request, and
        when it was computed by other packages than those that define the campaign; `LethalError` when the
        actor's node dies, `NoTimeError` when the run is cut, and `StoppedError` when the connection to Ray
        ends.
        """
        request = new_request(case, backend)
        arguments = (case.to_json(), backend, self._deadline, dict(options or {}), request.number)
        longest = longest_seconds(self._deadline * limits.work_factor(options or {}))
        outcome: Outcome = self._call(backend, f"ran case {case.id} on", longest, "run", *arguments)
        return self._check(outcome, request)

    def execute_group(
        self, runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> list[Outcome | InfrastructureError]:
        """Runs cases on the next free actor, in shared processes where that is possible.

        Each run has its outcome, or the error that `execute` would raise. An error that spoils all is raised.
        Workers over several nodes or in several environments, and those with a planted fault, run one case
        after another.
        """
        backend, *others = [name for _, name in runs]
        place = environments.of(backend, self._places)
        elsewhere = any(environments.of(name, self._places) != place for name in others)
        if elsewhere or place.nodes > 1 or faults.VARIABLE in options:
            return [_or_error(partial(self.execute, case, name, options)) for case, name in runs]
        requests = [new_request(case, name) for case, name in runs]
        numbers = [request.number for request in requests]
        texts = [(case.to_json(), name) for case, name in runs]
        longest = RUNS_AT_MOST * len(runs) * longest_seconds(self._deadline * limits.work_factor(options))
        doing = f"ran {len(runs)} cases from {runs[0][0].id} on"
        arguments = (texts, self._deadline, dict(options), numbers)
        outcomes = self._call(backend, doing, longest, "run_group", *arguments)
        return [
            one if isinstance(one, InfrastructureError) else _or_error(partial(self._check, one, request))
            for one, request in zip(outcomes, requests, strict=True)
        ]

    def _check(self, outcome: Outcome, request: Origin) -> Outcome:
        """The outcome; `InfrastructureError` where it is of another request or of other packages."""
        require_answer(outcome, request)
        require_versions(outcome, request.backend, environments.of(request.backend, self._places))
        return outcome

    def _call(self, backend: str, doing: str, seconds: float, method: str, *args: Any) -> Any:  # noqa: ANN401
        """What a free actor's method returns. The actor is lost when Ray itself fails."""
        team = self.team(backend)
        actor = team.take()
        try:
            reference = getattr(actor, method).remote(*args)
            result = connection.current().result(reference, seconds + OVERHEAD_SECONDS)
        except NoTimeError:
            team.dismiss(actor)
            raise
        except ray.exceptions.RayTaskError as error:
            team.give_back(actor)
            raise _cause(error) from error
        except ray.exceptions.RayError as error:
            if _node_died(error, team.lose(actor)):
                raise LethalError(ON_ITS_NODE, kind=NODE_LOST) from error
            msg = f"a worker was lost while it {doing} {backend}: {error}"
            raise InfrastructureError(msg) from error
        team.give_back(actor)
        return result


def _or_error(run: Callable[[], Outcome]) -> Outcome | InfrastructureError:
    try:
        return run()
    except InfrastructureError as error:
        return error


def _node_died(error: Exception, places: Collection[str]) -> bool:
    """Whether an actor was lost with one of its nodes, and not alone.

    Where the only node is this machine's, its death is that of Ray.
    """
    died = isinstance(error, ray.exceptions.RayActorError | ray.exceptions.NodeDiedError)
    if not died or connection.current().local:
        return False
    unknown = isinstance(error, ray.exceptions.ActorUnavailableError)
    end = time.monotonic() + (REASON_SECONDS if unknown else 0.0)
    while not (lost := nodes.any_lost(places)) and time.monotonic() < end:
        time.sleep(1.0)
    return lost


def _cause(error: Any) -> Exception:  # noqa: ANN401
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, InfrastructureError) else InfrastructureError(str(error))


def require_versions(outcome: Outcome, backend: str, environment: Environment) -> None:
    """Raises `InfrastructureError` where a run had another version of a package than the driver.

    A backend whose environment has a Python of its own, or is part of its name, may have other versions.
    """
    if environment.python or IN in backend:
        return
    for package, version in installed.versions(*installed.COMPUTING).items():
        actual = outcome.environment.get(package, version)
        if _public(actual) != _public(version):
            msg = (
                f"{backend} ran with {package} {actual}; the campaign is defined by {version}: install that "
                "on the worker, or give the backend an environment with a `python` of its own"
            )
            raise InfrastructureError(msg)


def _public(version: str) -> str:
    """A version without its local part, which says how a package was built: `2.9.0` for `2.9.0+cpu`."""
    return version.partition("+")[0]
