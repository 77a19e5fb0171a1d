"""Planted faults of features of training: a function that users call in their loop does not what it should.

Each changes a function of torch's in the process of a rank, which only one feature calls.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.optim.swa_utils import AveragedModel

from difftest.cases.case import Case
from difftest.cases.feature import of
from difftest.cases.features import implementation
from difftest.judge.stage import Stage
from workers.faults import of_feature
from workers.training.session import Session


def replacing(session: Session, owner: Any, name: str, spoiled: Callable[..., Any]) -> Session:  # noqa: ANN401
    """The session in whose process `owner.name` is `spoiled`, from placing on."""

    def place(module: nn.Module) -> nn.Module:
        setattr(owner, name, spoiled)
        return session.place(module)

    return replace(session, place=place)


def before_updates(session: Session, act: Callable[[torch.optim.Optimizer], None]) -> Session:
    """The session in which `act(optimizer)` comes right before every step of an optimizer."""

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        act(optimizer)

    def place(module: nn.Module) -> nn.Module:
        register_optimizer_step_pre_hook(before)
        return session.place(module)

    return replace(session, place=place)


def without(session: Session, option: str) -> Session:
    """The session whose optimizers have `option` off, whatever they were made with."""

    def act(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            group[option] = False

    return before_updates(session, act)


@of_feature("save_and_load", about="a parameter that was saved is not loaded")
def parameter_not_loaded(session: Session, _case: Case, _rank: int) -> Session:
    """The last one of the file; it keeps the value that it has."""
    load = nn.Module.load_state_dict

    def spoiled(module: nn.Module, saved: dict[str, Any], *_: object, **__: object) -> object:
        kept = dict(saved)
        kept.popitem()
        return load(module, kept, strict=False)

    return replacing(session, nn.Module, "load_state_dict", spoiled)


@of_feature(
    "save_and_load",
    about="the optimizer's state is not loaded",
    reaches=lambda case: case.training.optimizer != "sgd",
)
def optimizer_not_loaded(session: Session, _case: Case, _rank: int) -> Session:
    """It begins anew."""
    return replacing(session, torch.optim.Optimizer, "load_state_dict", lambda *_: None)


@of_feature("schedule", about="a scheduler counts every second step only")
def schedule_too_slow(session: Session, _case: Case, _rank: int) -> Session:
    """The first call counts, so that the first two steps are as they should be."""
    step, calls = lr_scheduler.LRScheduler.step, list[None]()

    def spoiled(scheduler: lr_scheduler.LRScheduler, *arguments: Any) -> None:  # noqa: ANN401
        calls.append(None)
        if len(calls) != 2:  # noqa: PLR2004  the first call is the constructor's
            step(scheduler, *arguments)

    return replacing(session, lr_scheduler.LRScheduler, "step", spoiled)


@of_feature("evaluation", about="a module in evaluation changes what it is trained on")
def evaluation_changes_weights(session: Session, _case: Case, _rank: int) -> Session:
    """Its first parameter grows by a part in eight."""
    evaluate = nn.Module.eval

    def spoiled(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            next(module.parameters()).mul_(1.125)
        return evaluate(module)

    return replacing(session, nn.Module, "eval", spoiled)


@of_feature("clip_by_value", about="gradients are clipped from above only")
def clipped_from_above(session: Session, _case: Case, _rank: int) -> Session:
    """Negative gradients stay what they are."""

    def spoiled(parameters: Iterable[torch.Tensor], value: float) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.clamp_(max=value)

    return replacing(session, nn.utils, "clip_grad_value_", spoiled)


@of_feature("implementation", about="an optimizer of many tensors leaves out the last one")
def last_tensor_left_out(session: Session, case: Case, _rank: int) -> Session:
    """Whatever the optimizer: its gradient is dropped right before the update."""
    options = of(case, implementation.Options)

    def act(optimizer: torch.optim.Optimizer) -> None:
        group = optimizer.param_groups[-1]
        if options and group.get(options.kind):
            group["params"][-1].grad = None

    return before_updates(session, act)


@of_feature("maximize", about="an optimizer descends that should ascend")
def maximize_ignored(session: Session, _case: Case, _rank: int) -> Session:
    """In every step."""
    return without(session, "maximize")


@of_feature(
    "amsgrad", about="AMSGrad is forgotten after the first step", reaches=lambda case: case.training.steps > 1
)
def amsgrad_ignored(session: Session, _case: Case, _rank: int) -> Session:
    """Adam divides by the last second moment, halved so that it differs from the greatest."""

    def after(stage: Stage, _step: int, _module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.UPDATE:
            for state in optimizer.state.values():
                state.get("max_exp_avg_sq", torch.zeros(())).mul_(0.5)

    return replace(session, after=after)


@of_feature("parameter_groups", about="the options of the first group are those of all groups")
def groups_alike(session: Session, _case: Case, _rank: int) -> Session:
    """Their decay, that is."""

    def act(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            group["weight_decay"] = optimizer.param_groups[0]["weight_decay"]

    return before_updates(session, act)


@of_feature("frozen", about="a frozen parameter decays")
def frozen_decays(session: Session, _case: Case, _rank: int) -> Session:
    """By a part in eight in every step."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.UPDATE:
            with torch.no_grad():
                for parameter in module.parameters():
                    if not parameter.requires_grad:
                        parameter.mul_(0.875)

    return replace(session, after=after)


@of_feature("zeroed_gradients", about="gradients that should be zero stay what they are")
def gradients_kept(session: Session, _case: Case, _rank: int) -> Session:
    """All of them; those that should be dropped are dropped."""
    zero = torch.optim.Optimizer.zero_grad

    def spoiled(optimizer: torch.optim.Optimizer, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002
        if set_to_none:
            zero(optimizer, set_to_none)

    return replacing(session, torch.optim.Optimizer, "zero_grad", spoiled)


@of_feature("averaged_weights", about="an average misses every second update")
def average_misses_updates(session: Session, _case: Case, _rank: int) -> Session:
    """The first counts."""
    update, calls = AveragedModel.update_parameters, list[None]()

    def spoiled(averaged: AveragedModel, module: nn.Module) -> None:
        calls.append(None)
        if len(calls) % 2:
            update(averaged, module)

    return replacing(session, AveragedModel, "update_parameters", spoiled)


@of_feature("clip_by_infinity_norm", about="gradients are clipped by another norm than requested")
def clipped_by_two_norm(session: Session, _case: Case, _rank: int) -> Session:
    """By the 2-norm."""
    clip = nn.utils.clip_grad_norm_

    def spoiled(parameters: Iterable[torch.Tensor], norm: float, **_: object) -> torch.Tensor:
        return clip(parameters, norm)

    return replacing(session, nn.utils, "clip_grad_norm_", spoiled)


@of_feature("gradient_scaler", about="an update that overflows is not skipped")
def overflow_not_skipped(session: Session, _case: Case, _rank: int) -> Session:
    """The optimizer takes its step whatever the gradients are."""
    return replacing(session, GradScaler, "step", lambda _scaler, optimizer: optimizer.step())
