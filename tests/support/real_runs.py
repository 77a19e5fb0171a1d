"""Runs in real processes: a small case, its oracle, and the error of a run."""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome, Trace
from difftest.judge.stage import Stage
from workers.deadlines import DEADLINE_SECONDS as RUN_SECONDS
from workers.isolate import groups, sandbox
from workers.isolate.answers import new_request

DEADLINE_SECONDS = 15.0
DDP = "torch_ddp"

Name = TypeVar("Name", bound=Hashable)


def small_case(world_size: int = 2) -> Case:
    """A case of one Linear layer, data parallel, with a batch of eight rows."""
    model = Model(layers=(Linear(inputs=4, outputs=4),))
    layout = Layout(
        mesh=Mesh((("dp", world_size),)),
        batch=(Shard(0),),
        parameters=dict.fromkeys(model.parameters(), (Replicate(),)),
    )
    return Case(
        path="data_parallel", model=model, layout=layout, training=Training(), data=Data(batch=8), seed=1
    )


def oracle_trace(case: Case, deadline: float = RUN_SECONDS) -> Trace:
    """The oracle's trace of the case, which is run once for all tests of a process."""
    return _oracle_trace(case.to_json(), deadline)


@functools.cache
def _oracle_trace(case: bytes, deadline: float) -> Trace:
    outcome = sandbox.run(Case.from_json(case), "oracle", deadline=deadline)
    assert isinstance(outcome, Trace), outcome
    return outcome


def together(
    cases: Sequence[Case],
    backend: str,
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    deadline: float = RUN_SECONDS,
) -> list[Outcome | InfrastructureError]:
    """The outcomes of cases that share processes where they can."""
    requests = [new_request(case, backend) for case in cases]
    return groups.run(cases, requests, deadline=deadline, options=options)


def shared(cases: Mapping[Name, Case], backend: str) -> Callable[[Name], Outcome]:
    """A function from the name of a case to its outcome, whose first call runs all cases as `together`.

    They take half of the processor time that each takes in processes of its own.
    """

    @functools.cache
    def outcomes() -> Mapping[Name, Outcome | InfrastructureError]:
        return dict(zip(cases, together([*cases.values()], backend), strict=True))

    def outcome(name: Name) -> Outcome:
        made = outcomes()[name]
        if isinstance(made, InfrastructureError):
            raise made
        return made

    return outcome


def each_together(
    runs: Sequence[tuple[Case, str]], options: Mapping[str, str] = MappingProxyType({})
) -> list[Outcome | InfrastructureError]:
    """As `together`, for cases that have a backend each."""
    requests = [new_request(case, backend) for case, backend in runs]
    cases = [case for case, _ in runs]
    return groups.run(cases, requests, deadline=RUN_SECONDS, options=options)


def agrees(case: Case, backend: str, outcome: Outcome, deadline: float = RUN_SECONDS) -> bool:
    """Whether `outcome` agrees with the oracle's by every check; the oracle may take `deadline` seconds."""
    return _beside_oracle(case, backend, outcome, deadline).verdict == "agree"


def compared(case: Case, backend: str) -> Comparison:
    """A run of the case, compared with the oracle's by every check."""
    return _beside_oracle(case, backend, sandbox.run(case, backend))


def _beside_oracle(case: Case, backend: str, outcome: Outcome, deadline: float = RUN_SECONDS) -> Comparison:
    side = plugins.load("workers.backends", backend).SIDE
    return compare(case, backend, side, oracle_trace(case, deadline), outcome)


def relative_errors(case: Case, outcome: Outcome) -> dict[tuple[int, Stage, str], float]:
    """The root mean square error of every tensor of every step, relative to the oracle's tensor."""
    expected = oracle_trace(case)
    assert isinstance(outcome, Trace), outcome
    errors, alone = {}, case.unsharded().layout.mesh
    for step, (before, after) in enumerate(zip(expected.steps, outcome.steps, strict=True)):
        assert before.keys() == after.keys()
        for (stage, name), tensor in before.items():
            actual, truth = after[stage, name], tensor.full(alone)
            assert actual.misfits(case.layout.mesh) == []
            off = actual.full(case.layout.mesh) - truth
            errors[step, stage, name] = float(np.sqrt((off**2).mean() / (truth**2).mean()))
    return errors


def greatest_relative_error(case: Case, outcome: Outcome) -> float:
    """The greatest of `relative_errors`."""
    return max(relative_errors(case, outcome).values())
