"""Planted faults of torch's optimizers, the same in every process, so that all sides and the oracle agree.

References of another make alone can show them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import lr_scheduler, swa_utils

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import optimizer as another
from workers.faults import in_torch, replace_in_torch
from workers.training.session import Session

Reaches: TypeAlias = Callable[[Case], bool]

REPLACED = ("optimizer", "capturable")
"""The features with which the oracle has no optimizer of torch's."""


def _trains_by(*names: str, steps: int = 1, without: tuple[str, ...] = ()) -> Reaches:
    """Cases that torch's own optimizer of a name trains, for so many steps at least."""
    return lambda case: (
        case.training.optimizer in names
        and case.training.steps >= steps
        and not has(case, *REPLACED, *without)
    )


def _of(kind: str, steps: int = 1) -> Reaches:
    """Cases that another optimizer trains."""

    def reaches(case: Case) -> bool:
        options = of(case, another.Options)
        return options is not None and options.kind == kind and case.training.steps >= steps

    return reaches


def _with(feature: str, steps: int = 1) -> Reaches:
    return lambda case: has(case, feature) and case.training.steps >= steps


def _step_along(direction: Callable[[Tensor, dict[str, Any], dict[str, Any]], Any]) -> Callable[..., None]:
    """A step along a wrong `direction`, given a gradient, its state and its group's options.

    The decay is AdamW's for AdamW, and a part of the gradient for all others.
    """

    @torch.no_grad()
    def step(self: torch.optim.Optimizer, closure: None = None) -> None:  # noqa: ARG001  torch's signature
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state, gradient = self.state[parameter], parameter.grad
                gradient = -gradient if group["maximize"] else gradient
                if isinstance(self, torch.optim.AdamW):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                elif group["weight_decay"]:
                    gradient = gradient + group["weight_decay"] * parameter
                parameter.sub_(group["lr"] * direction(gradient, state, group))

    return step


def _moments(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Adam's moments, corrected."""
    (one, two), zero = group["betas"], torch.zeros_like(gradient)
    state["step"] = step = state.get("step", 0) + 1
    state["exp_avg"] = first = one * state.get("exp_avg", zero) + (1 - one) * gradient
    state["exp_avg_sq"] = second = two * state.get("exp_avg_sq", zero) + (1 - two) * gradient**2
    return first / (1 - one**step), second / (1 - two**step)


def _of_adam(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Adam's direction as it is."""
    first, second = _moments(gradient, state, group)
    return cast("Tensor", first / (second.sqrt() + group["eps"]))


@in_torch(
    about="Adam's epsilon is inside the root", reaches=_trains_by("adam", "adamw", without=("amsgrad",))
)
def epsilon_inside_root(session: Session, _case: Case, _rank: int) -> Session:
    """As in some other frameworks."""

    def direction(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:  # noqa: ANN401  a tensor
        first, second = _moments(gradient, state, group)
        return first / (second + group["eps"]).sqrt()

    replace_in_torch(torch.optim.Adam, "step", _step_along(direction))
    return session


@in_torch(
    about="Adam corrects its second moment as if one step more had been taken",
    reaches=_trains_by("adam", "adamw", without=("amsgrad",)),
)
def correction_a_step_ahead(session: Session, _case: Case, _rank: int) -> Session:
    """Off by one."""

    def direction(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:  # noqa: ANN401  a tensor
        first, second = _moments(gradient, state, group)
        kept, step = group["betas"][1], state["step"]
        ahead = second * (1 - kept**step) / (1 - kept ** (step + 1))
        return first / (ahead.sqrt() + group["eps"])

    replace_in_torch(torch.optim.Adam, "step", _step_along(direction))
    return session


@in_torch(about="amsgrad keeps no greatest second moment", reaches=_with("amsgrad", steps=2))
def greatest_moment_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """It is Adam."""
    replace_in_torch(torch.optim.Adam, "step", _step_along(_of_adam))
    return session


@in_torch(about="AdamW's decay is a part of the gradient", reaches=_trains_by("adamw", without=("amsgrad",)))
def decay_not_decoupled(session: Session, _case: Case, _rank: int) -> Session:
    """As in Adam."""
    step = _step_along(_of_adam)

    def coupled(self: torch.optim.Optimizer, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach(), alpha=group["weight_decay"])
            group["weight_decay"] = 0.0
        step(self, closure)

    replace_in_torch(torch.optim.AdamW, "step", coupled)
    return session


@in_torch(
    about="SGD's first velocity is dampened",
    reaches=_trains_by("momentum", steps=2, without=("nesterov",)),
)
def first_velocity_dampened(session: Session, _case: Case, _rank: int) -> Session:
    """By the momentum, as if it were a moving average that began at zero."""
    right = torch.optim.SGD.step

    def step(self: torch.optim.SGD, closure: None = None) -> object:
        first = not self.state
        result = right(self, closure)
        for group in self.param_groups:
            for parameter in group["params"] if first and group["momentum"] else ():
                if self.state[parameter].get("momentum_buffer") is not None:
                    self.state[parameter]["momentum_buffer"].mul_(1 - group["momentum"])
        return result

    replace_in_torch(torch.optim.SGD, "step", step)
    return session


@in_torch(about="RMSprop's epsilon is inside the root", reaches=_of("rmsprop"), shows="torch_eager")
def epsilon_in_rmsprops_root(session: Session, _case: Case, _rank: int) -> Session:
    """In every implementation."""

    def direction(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:  # noqa: ANN401  a tensor
        before = state.get("square_avg", torch.zeros_like(gradient))
        state["square_avg"] = group["alpha"] * before + (1 - group["alpha"]) * gradient**2
        return gradient / (state["square_avg"] + group["eps"]).sqrt()

    replace_in_torch(torch.optim.RMSprop, "step", _step_along(direction))
    return session


@in_torch(
    about="Adamax divides by the second moment's root", reaches=_of("adamax", steps=2), shows="torch_eager"
)
def adamax_is_adam(session: Session, _case: Case, _rank: int) -> Session:
    """Not by the greatest magnitude."""
    replace_in_torch(torch.optim.Adamax, "step", _step_along(_of_adam))
    return session


@in_torch(
    about="gradients are clipped by the sum of magnitudes",
    reaches=lambda case: case.training.clip_norm is not None,
)
def clipped_by_another_norm(session: Session, _case: Case, _rank: int) -> Session:
    """The 1-norm in place of the 2-norm."""
    right = torch.nn.utils.clip_grad_norm_

    def clip(parameters: Any, max_norm: float, norm_type: float = 2.0, **options: Any) -> Tensor:  # noqa: ANN401
        order = 1.0 if norm_type == 2.0 else norm_type  # noqa: PLR2004  the usual norm
        return right(parameters, max_norm, order, **options)

    replace_in_torch(torch.nn.utils, "clip_grad_norm_", clip)
    return session


@in_torch(about="a scheduler is a step ahead", reaches=_with("schedule"), shows="torch_eager")
def schedule_a_step_ahead(session: Session, _case: Case, _rank: int) -> Session:
    """Every scheduler steps once more when it is made."""
    right = lr_scheduler.LRScheduler._initial_step  # noqa: SLF001  no public name

    def begun(self: lr_scheduler.LRScheduler) -> None:
        right(self)
        self.step()

    replace_in_torch(lr_scheduler.LRScheduler, "_initial_step", begun)
    return session


@in_torch(
    about="an average of weights begins at zero", reaches=_with("averaged_weights", 2), shows="torch_eager"
)
def average_begins_at_zero(session: Session, _case: Case, _rank: int) -> Session:
    """And not as the weights after the first update."""
    right = swa_utils.AveragedModel.update_parameters

    def update(self: swa_utils.AveragedModel, model: nn.Module) -> None:
        if self.n_averaged == 0:
            right(self, model)
            with torch.no_grad():
                for parameter in self.module.parameters():
                    parameter.zero_()
        right(self, model)

    replace_in_torch(swa_utils.AveragedModel, "update_parameters", update)
    return session


@in_torch(
    about="gradients are unscaled by half the scale", reaches=_with("gradient_scaler"), shows="torch_eager"
)
def unscaled_by_half(session: Session, _case: Case, _rank: int) -> Session:
    """What the optimizer gets is twice as large."""
    right = GradScaler.unscale_

    def unscale(self: GradScaler, optimizer: torch.optim.Optimizer) -> None:
        right(self, optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(2.0)

    replace_in_torch(GradScaler, "unscale_", unscale)
    return session
