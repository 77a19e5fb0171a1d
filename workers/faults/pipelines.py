"""Planted faults of pipelines: of microbatches, and of what stages hand on and learn.

No case without stages can show one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.pipelining import AXIS, Pipeline
from difftest.judge.stage import Stage
from workers.faults import BACKEND, SHARDING, Plant, PlantedFault, planted
from workers.training.features import input_hooks
from workers.training.session import Loss, Session
from workers.training.wrapped_names import parameters

PIPELINE = ("torch_pipeline",)


def _of_stages(*, about: str, reaches: Callable[[Case, Pipeline], bool]) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for the cases of the path `pipelines` that have several stages."""

    def staged(case: Case) -> bool:
        return case.staged is not None and case.world_size > 1 and reaches(case, case.staged)

    return planted(about=about, backends=PIPELINE, blame=SHARDING, reaches=staged, paths=("pipelines",))


@_of_stages(
    about="the targets of a microbatch are those of another one",
    reaches=lambda _case, pipeline: pipeline.microbatches > 1,
)
def microbatches_swapped(session: Session, case: Case, _rank: int) -> Session:
    """Each has those of the one before."""
    run, pipeline = session.staged, case.staged
    if run is None or pipeline is None:
        return session

    def staged(module: nn.Module, parts: Sequence[Sequence[Tensor]], loss: Loss) -> Any:  # noqa: ANN401
        moved = [
            (inputs, targets.roll(len(targets) // pipeline.microbatches, 0), *beside)
            for inputs, targets, *beside in parts
        ]
        return run(module, moved, loss)

    return replace(session, staged=staged)


@_of_stages(
    about="what a microbatch has beside its inputs is that of another one",
    reaches=lambda _case, pipeline: pipeline.microbatches > 1 and pipeline.beside in {"rows", "pair"},
)
def beside_swapped(session: Session, case: Case, _rank: int) -> Session:
    """Each has that of the one before."""
    run, pipeline = session.staged, case.staged
    if run is None or pipeline is None:
        return session

    def staged(module: nn.Module, parts: Sequence[Sequence[Tensor]], loss: Loss) -> Any:  # noqa: ANN401
        moved = [
            (inputs, targets, *(one.roll(len(one) // pipeline.microbatches, 0) for one in beside))
            for inputs, targets, *beside in parts
        ]
        return run(module, moved, loss)

    return replace(session, staged=staged)


@_of_stages(
    about="gradients are not divided by the number of microbatches",
    reaches=lambda _case, pipeline: pipeline.scaled and pipeline.microbatches > 1,
)
def microbatches_not_divided(session: Session, case: Case, _rank: int) -> Session:
    """Where the loss of a microbatch is a mean, and the schedule has to divide."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD and session.staged and case.staged and case.staged.scaled:
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * case.staged.microbatches

    return replace(session, after=after)


@_of_stages(
    about="the stages behind the first rank's learn what they did in the first step",
    reaches=lambda case, _pipeline: case.training.steps > 1 and case.training.optimizer != "none",
)
def stale_stages(session: Session, case: Case, rank: int) -> Session:
    """Their gradients are those of the first step."""
    first: dict[str, Tensor] = {}
    behind = AXIS in case.layout.mesh.names and case.layout.mesh.coordinate(rank)[0] > 0

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is not Stage.BACKWARD or not (session.staged and behind):
            return
        for name, parameter in parameters(module).items():
            if parameter.grad is not None:
                parameter.grad = first.setdefault(name, parameter.grad.clone()).clone()

    return replace(session, after=after)


@_of_stages(
    about="of two tensors that a stage hands on, the second is the first one of the microbatch before",
    reaches=lambda _case, pipeline: pipeline.hands == "two",
)
def second_output_stale(session: Session, _case: Case, _rank: int) -> Session:
    """The first microbatch gets its own."""
    if session.staged is None:
        return session
    from workers.torch.pipelines import StageModule

    right, before = StageModule.forward, dict[int, Tensor]()

    def forward(stage: StageModule, *inputs: Tensor, **beside: Any) -> Any:  # noqa: ANN401  a tensor, or two
        output = right(stage, *inputs, **beside)
        if not isinstance(output, tuple):
            return output
        stale = before.get(id(stage), output[0])
        before[id(stage)] = output[0].detach()
        return output[0], stale

    StageModule.forward = forward  # type: ignore[method-assign, assignment]
    return session


@_of_stages(
    about="one rank fails in the middle of a step, and the others wait for what it should have sent",
    reaches=lambda _case, _pipeline: True,
)
def stage_raises(session: Session, case: Case, rank: int) -> Session:
    """The last stage's rank, in the loss."""
    del rank
    run = session.staged
    if run is None:
        return session

    def staged(module: nn.Module, parts: Sequence[Sequence[Tensor]], _loss: Loss) -> Any:  # noqa: ANN401
        def failing(_output: Tensor, _targets: Tensor) -> Tensor:
            msg = f"planted: a stage of {case.path} raises"
            raise RuntimeError(msg)

        return run(module, parts, failing)

    return replace(session, staged=staged)


@planted(
    about="layers that were frozen are trained",
    backends=PIPELINE,
    blame=BACKEND,
    reaches=lambda case: has(case, "frozen_layers"),
    paths=("pipelines",),
)
def frozen_layers_trained(session: Session, _case: Case, _rank: int) -> Session:
    """As if nothing had been frozen."""

    def place(module: nn.Module) -> nn.Module:
        return session.place(module.requires_grad_())

    return replace(session, place=place)


@planted(
    about="hooks on what layers are given do nothing",
    backends=PIPELINE,
    blame=BACKEND,
    reaches=lambda case: has(case, "input_hooks"),
    paths=("pipelines",),
)
def hooks_without_effect(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients stay whole."""
    input_hooks.halved = lambda gradient: gradient
    return session
