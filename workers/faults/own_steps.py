"""Planted faults of features of training that the cases of `own_steps` alone have."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim import lr_scheduler

from difftest.cases.case import Case
from difftest.cases.feature import of
from difftest.cases.features import schedule
from difftest.cases.features.retried import Options
from workers.faults import BACKEND, EVERYWHERE, of_feature, planted
from workers.faults.features import replacing
from workers.training.features import (
    TrainingProgress,
    added_in_place,
    changed_in_place,
    empty_group,
    evaluated_before_update,
    forward_derivative,
    gradient_penalty,
    parameter_hooks,
    retried,
)
from workers.training.session import Session

PATHS = ("own_steps",)


@of_feature("gradient_penalty", about="the slope of a penalty counts as a number", paths=PATHS)
def slope_without_gradient(session: Session, _case: Case, _rank: int) -> Session:
    """So that the penalty trains nothing."""
    right = gradient_penalty.slope_of
    gradient_penalty.slope_of = lambda inputs, output: right(inputs, output).detach()
    return session


@of_feature("forward_derivative", about="a derivative of forward mode counts as a number", paths=PATHS)
def derivative_without_gradient(session: Session, _case: Case, _rank: int) -> Session:
    """So that its term trains nothing."""
    of_own: Any = forward_derivative
    right = of_own.call

    def detached(*given: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401  as what it replaces
        output, term = right(*given)
        return output, term.detach()

    of_own.call = detached
    return session


@of_feature("parameter_hooks", about="hooks of parameters do nothing", paths=PATHS)
def parameter_hooks_without_effect(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients are twice as great."""
    parameter_hooks.halved = lambda gradient: gradient
    return session


@of_feature("empty_group", about="the last parameter of a group before an empty one is left out", paths=PATHS)
def last_before_empty_group_lost(session: Session, _case: Case, _rank: int) -> Session:
    """It is not trained."""
    right = empty_group.all_of
    empty_group.all_of = lambda parameters: right(parameters)[:-1]
    return session


@of_feature("evaluated_before_update", about="a metric is added to the gradients that are there", paths=PATHS)
def gradients_of_a_metric(session: Session, _case: Case, _rank: int) -> Session:
    """They are twice as great, as if the forward pass of the metric had been differentiated too."""
    right = evaluated_before_update.metric

    def differentiated(progress: TrainingProgress) -> Tensor:
        for parameter in progress.module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(2.0)
        return right(progress)

    evaluated_before_update.metric = differentiated
    return session


@of_feature("retried", about="gradients of an attempt that failed are added to the next one's", paths=PATHS)
def gradients_of_an_attempt_kept(session: Session, _case: Case, _rank: int) -> Session:
    """Those of the whole step, as where only the update had failed."""

    def kept(progress: TrainingProgress, at: Options) -> None:
        del at
        (progress.forward() * progress.scale).backward()

    retried.attempt = kept
    return session


def _changes_schedules(case: Case) -> bool:
    own = of(case, schedule.Options)
    return own is not None and own.kind == "warmed" and case.training.steps > schedule.WARM_UP


@planted(
    paths=PATHS,
    about="the first of two schedules never ends",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_changes_schedules,
)
def first_schedule_stays(session: Session, _case: Case, _rank: int) -> Session:
    """The milestone is passed over."""

    def stays(schedules: Any) -> None:  # noqa: ANN401  torch's SequentialLR, with names of its own
        schedules._schedulers[0].step()  # noqa: SLF001  no public name

    return replacing(session, lr_scheduler.SequentialLR, "step", stays)


@of_feature("added_in_place", about="what is added in place to a view is added twice", paths=PATHS)
def added_twice(session: Session, _case: Case, _rank: int) -> Session:
    """As if the view had numbers of its own beside those of the result."""

    def twice(layer: nn.Module, inputs: Any, given: Tensor) -> Tensor:  # noqa: ANN401  torch's type of a hook
        del layer
        return given.unsqueeze(0).squeeze(0) + (inputs[0] if inputs[0].shape == given.shape else 1.0)

    added_in_place.view = twice
    return session


@of_feature("changed_in_place", about="what is changed in place is changed twice", paths=PATHS)
def changed_twice(session: Session, _case: Case, _rank: int) -> Session:
    """As where a graph that has run is run again."""
    right = changed_in_place.change

    def twice(given: Tensor, by: str) -> Tensor:
        return right(right(given, by), by)

    changed_in_place.change = twice
    return session


@planted(
    paths=PATHS,
    about="parameters that stay gathered in a step are not sharded again behind it",
    backends=("torch_fsdp",),
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.kept_in_step and case.training.steps > 1,
)
def never_resharded(session: Session, _case: Case, _rank: int) -> Session:
    """The second step computes with the weights of the first."""
    return replacing(session, FSDPModule, "reshard", lambda _module: None)
