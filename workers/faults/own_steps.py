"""Planted faults of features of training that the cases of `own_steps` alone have."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from difftest.cases.case import Case
from difftest.cases.feature import has
from workers.faults import BACKEND, EVERYWHERE, planted
from workers.faults.features import replacing
from workers.training.features import added_in_place, empty_group, gradient_penalty, parameter_hooks
from workers.training.session import Session

PATHS = ("own_steps",)


def _has(feature: str) -> Callable[[Case], bool]:
    return lambda case: has(case, feature)


@planted(
    paths=PATHS,
    about="the slope of a penalty counts as a number",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("gradient_penalty"),
)
def slope_without_gradient(session: Session, _case: Case, _rank: int) -> Session:
    """So that the penalty trains nothing."""
    right = gradient_penalty.slope_of
    gradient_penalty.slope_of = lambda inputs, output: right(inputs, output).detach()
    return session


@planted(
    paths=PATHS,
    about="hooks of parameters do nothing",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("parameter_hooks"),
)
def parameter_hooks_without_effect(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients are twice as great."""
    parameter_hooks.halved = lambda gradient: gradient
    return session


@planted(
    paths=PATHS,
    about="the last parameter of a group before an empty one is left out",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("empty_group"),
)
def last_before_empty_group_lost(session: Session, _case: Case, _rank: int) -> Session:
    """It is not trained."""
    right = empty_group.all_of
    empty_group.all_of = lambda parameters: right(parameters)[:-1]
    return session


@planted(
    paths=PATHS,
    about="what is added in place to a view is added twice",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("added_in_place"),
)
def added_twice(session: Session, _case: Case, _rank: int) -> Session:
    """As if the view had numbers of its own beside those of the result."""

    def twice(layer: nn.Module, inputs: Any, given: Tensor) -> Tensor:  # noqa: ANN401  torch's type of a hook
        del layer
        return given.unsqueeze(0).squeeze(0) + (inputs[0] if inputs[0].shape == given.shape else 1.0)

    added_in_place.view = twice
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
