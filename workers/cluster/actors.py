"""The Ray actors: a `Runner` is one node's, a `Crew` is several nodes' that share the ranks of one case. Neither touches a device."""

import importlib.util
import socket
import sys
from collections.abc import Sequence
from functools import reduce
from typing import Any

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from difftest import plugins
from difftest.cases.case import Case
from difftest.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Failure, Outcome, Stage, Symptom, Trace
from workers.cluster.environments import Environment
from workers.isolate import sandbox
from workers.isolate.sandbox import Share
from workers.isolate.zygotes import zygote_with

CONSEQUENCES = (Symptom.CRASH, Symptom.EXCEPTION, Symptom.CAPABILITY, Symptom.HANG)
"""Of the failures of several nodes, what leads to what: where a rank crashes the others lose it, and where one raises they wait for it."""


@ray.remote(max_restarts=0, max_task_retries=0)
class Runner:
    """Runs sandboxed cases on one node, one after another."""

    def ready(self) -> tuple[str, str]:
        """Answers once the actor stands: the node's id in Ray and the prefix of the Python it runs under."""
        return ray.get_runtime_context().get_node_id(), sys.prefix

    def lacking(self, modules: tuple[str, ...]) -> list[str]:
        """The modules among `modules` that this node's Python does not have."""
        return [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]

    def meeting(self, modules: tuple[str, ...]) -> str:
        """An address of this node at which nobody listens, for ranks of several nodes to meet; its zygote for `modules` is warm."""
        zygote_with(modules).warm()
        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def run(
        self, case: bytes, backend: str, deadline: float, options: dict[str, str], share: Share | None = None
    ) -> Outcome:
        """One run, or one node's share of it; `case` as canonical JSON. `UnsupportedError` where this node's packages cannot do it."""
        asked = Case.from_json(case)
        if reason := plugins.load("workers.backends", backend).unsupported(asked):
            raise UnsupportedError(reason)
        return sandbox.run(asked, backend, deadline=deadline, options=options, share=share)


@ray.remote(max_restarts=0, max_task_retries=0)
class Crew:
    """A worker over several nodes: a `Runner` on each, in a placement group that goes with the crew. It ends when it loses one."""

    def __init__(self, environment: Environment) -> None:
        labels = [environment.labels] * environment.nodes if environment.labels else None
        bundles = [environment.bundle()] * environment.nodes
        self._group = placement_group(bundles, strategy="STRICT_SPREAD", bundle_label_selector=labels)
        asked = environment.options() | {"label_selector": None}
        if not environment.resources:
            asked["num_cpus"] = 1
        self._members = [
            Runner.options(  # type: ignore[attr-defined]
                **asked,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=index
                ),
            ).remote()
            for index in range(environment.nodes)
        ]

    def ready(self) -> list[tuple[str, str]]:
        """Answers once every member stands: their nodes and Pythons."""
        told: list[tuple[str, str]] = _asked([member.ready.remote() for member in self._members])
        return told

    def lacking(self, modules: tuple[str, ...]) -> list[str]:
        """The modules that any member lacks."""
        return sorted(
            {
                name
                for names in _asked([member.lacking.remote(modules) for member in self._members])
                for name in names
            }
        )

    def run(self, case: bytes, backend: str, deadline: float, options: dict[str, str]) -> Outcome:
        """One run whose ranks the members share; `case` as canonical JSON. `InfrastructureError` where they do not meet."""
        module = plugins.load("workers.backends", backend)
        shares = _shares(module.processes(Case.from_json(case)), len(self._members))
        if len(shares) == 1:
            outcome: Outcome = _asked([self._members[0].run.remote(case, backend, deadline, options)])[0]
            return outcome
        where = _asked([member.meeting.remote(module.PRELOAD) for member in self._members])[0]
        return joined(
            _asked(
                [
                    member.run.remote(case, backend, deadline, options, Share(ranks=ranks, rendezvous=where))
                    for member, ranks in zip(self._members, shares, strict=False)
                ]
            )
        )


def _asked(references: Sequence[Any]) -> list[Any]:
    """What the members say; the crew ends with the first of them that is lost, since its group is broken."""
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
    """Ranks cut into neighbours, as a mesh's inner axes are best kept on a node; fewer shares than nodes where there are fewer ranks."""
    most = -(-processes // nodes)
    return [range(start, min(start + most, processes)) for start in range(0, processes, most)]


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcomes of a run's shares, in the order of their ranks, as the run's; of several failures the one that explains the others."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if not failures:
        return reduce(Trace.merged, [outcome for outcome in outcomes if isinstance(outcome, Trace)])
    if len(failures) == len(outcomes) and all(
        (failure.symptom, failure.stage) == (Symptom.HANG, Stage.BUILD) for failure in failures
    ):
        msg = f"the nodes of a run did not meet: {failures[0].message}"
        raise InfrastructureError(msg)
    return min(failures, key=lambda failure: CONSEQUENCES.index(failure.symptom))
