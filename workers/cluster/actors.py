"""The Ray actors: a `Runner` works on one node, a `Crew` on several that share the ranks of one case.

Neither touches a device.
"""

import importlib.util
import socket
import sys
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.ground.own_folder import remove_abandoned
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from difftest.judge.stage import Stage
from workers import backends, faults
from workers.cluster.environments import Environment
from workers.isolate import groups, sandbox
from workers.isolate.answers import new_request
from workers.isolate.lost_peers import lost_a_peer
from workers.isolate.ranks import NodeShare
from workers.isolate.zygotes import share, zygote_with
from workers.torch import rendezvous

CONSEQUENCES = (Symptom.CRASH, Symptom.EXCEPTION, Symptom.CAPABILITY, Symptom.HANG)
"""The symptoms of several nodes, causes before their consequences.

Where a rank crashes, the others lose their connection to it; where a rank raises, the others wait for it.
"""


@ray.remote(max_restarts=0, max_task_retries=0)
class Runner:
    """Runs isolated cases on one node, one after another.

    Runners that are made with the same folder share their zygotes; one without has its own.
    """

    _reserved: socket.socket | None = None

    def __init__(self, shared: Path | None = None) -> None:
        remove_abandoned()
        if shared:
            share(shared)

    def ready(self) -> tuple[str, str]:
        """Answers once the actor is alive: the node's id in Ray and the prefix of the actor's Python."""
        return ray.get_runtime_context().get_node_id(), sys.prefix

    def missing_modules(self, modules: tuple[str, ...]) -> list[str]:
        """Those of `modules` that this node's Python does not have."""
        return [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]

    def rendezvous(self, modules: tuple[str, ...]) -> str:
        """An address of this node with a secret, as a `tcp://` URL, where ranks of several nodes can meet.

        Its port is reserved until the next call. Warms the zygote for `modules` first, so that the ranks of
        this node do not come late.
        """
        zygote_with(modules).warm()
        if self._reserved:
            self._reserved.close()
        self._reserved = rendezvous.reserved(ray.util.get_node_ip_address())
        return rendezvous.url(self._reserved)

    def run(  # noqa: PLR0913, PLR0917  what a run is made of
        self,
        case: bytes,
        backend: str,
        deadline: float,
        options: dict[str, str],
        number: str,
        share: NodeShare | None = None,
    ) -> Outcome:
        """One run, or one node's share of it; `case` is canonical JSON, `deadline` is in seconds.

        `number` is the request's, which the outcome's origin repeats.

        Raises `UnsupportedError` where this node's packages cannot run it.
        """
        parsed = Case.from_json(case)
        if reason := backends.load(backend).unsupported(parsed):
            raise UnsupportedError(reason)
        run = partial(sandbox.run, deadline=deadline, options=options, share=share, number=number)
        return faults.worked(run, parsed, backend, options.get(faults.VARIABLE))

    def run_group(
        self,
        runs: Sequence[tuple[bytes, str]],
        deadline: float,
        options: dict[str, str],
        numbers: Sequence[str],
    ) -> list[Outcome | InfrastructureError]:
        """Runs of several cases, as `workers.isolate.groups.run` makes them; the rest is as in `run`."""
        parsed = [Case.from_json(case) for case, _ in runs]
        requests = [
            new_request(case, backend, number)
            for case, (_, backend), number in zip(parsed, runs, numbers, strict=True)
        ]
        return groups.run(parsed, requests, deadline=deadline, options=options)


@ray.remote(max_restarts=0, max_task_retries=0)
class Crew:
    """A worker over several nodes: a `Runner` on each, in a placement group that ends with the crew.

    The crew ends when it loses a runner.
    """

    def __init__(self, environment: Environment) -> None:
        labels = [environment.labels] * environment.nodes if environment.labels else None
        bundles = [environment.bundle()] * environment.nodes
        self._group = placement_group(bundles, strategy="STRICT_SPREAD", bundle_label_selector=labels)
        options = environment.options() | {"label_selector": None}
        if not environment.resources:
            options["num_cpus"] = 1
        self._members = [
            Runner.options(  # type: ignore[attr-defined]
                **options,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=index
                ),
            ).remote()
            for index in range(environment.nodes)
        ]

    def ready(self) -> list[tuple[str, str]]:
        """Answers once every member is alive: their nodes and Pythons."""
        places: list[tuple[str, str]] = _results([member.ready.remote() for member in self._members])
        return places

    def missing_modules(self, modules: tuple[str, ...]) -> list[str]:
        """Those of `modules` that any member lacks."""
        answers = _results([member.missing_modules.remote(modules) for member in self._members])
        return sorted({name for names in answers for name in names})

    def run(
        self, case: bytes, backend: str, deadline: float, options: dict[str, str], number: str
    ) -> Outcome:
        """One run whose ranks the members share; `case` is canonical JSON, `deadline` is in seconds.

        Raises `InfrastructureError` where the members do not meet.
        """
        module = backends.load(backend)
        shares = _shares(module.processes(Case.from_json(case)), len(self._members))
        if len(shares) == 1:
            alone = self._members[0].run.remote(case, backend, deadline, options, number)
            outcome: Outcome = _results([alone])[0]
            return outcome
        address = _results([member.rendezvous.remote(module.PRELOAD) for member in self._members])[0]
        return merged(
            _results(
                [
                    member.run.remote(
                        case, backend, deadline, options, number, NodeShare(ranks=ranks, rendezvous=address)
                    )
                    for member, ranks in zip(self._members, shares, strict=False)
                ]
            )
        )


def _results(references: Sequence[Any]) -> list[Any]:
    """The members' results. The crew ends with the first member that is lost, since its group is broken."""
    try:
        return list(ray.get(list(references)))
    except ray.exceptions.RayTaskError as error:
        raise (
            error.cause if isinstance(error.cause, InfrastructureError) else InfrastructureError(str(error))
        ) from error
    except ray.exceptions.RayError:
        ray.actor.exit_actor()
        raise


def _shares(processes: int, nodes: int) -> list[range]:
    """Cuts the ranks into runs of neighbours, since a mesh's inner axes are best kept on one node.

    Where there are fewer ranks than nodes, there are fewer shares than nodes.
    """
    most = -(-processes // nodes)
    return [range(start, min(start + most, processes)) for start in range(0, processes, most)]


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a run from those of its shares, in the order of their ranks.

    Of several failures it is the one that explains the others. Raises `InfrastructureError` where the nodes
    did not meet: every share hangs while it builds the model.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if not failures:
        return reduce(Trace.merged, [outcome for outcome in outcomes if isinstance(outcome, Trace)])
    if len(failures) == len(outcomes) and all(
        (failure.symptom, failure.stage) == (Symptom.HANG, Stage.BUILD) for failure in failures
    ):
        msg = f"the nodes of a run did not meet: {failures[0].message}"
        raise InfrastructureError(msg)
    return min(failures, key=lambda failure: (lost_a_peer(failure), CONSEQUENCES.index(failure.symptom)))
