"""Planted faults of features of training: a function that users call in their loop does not what it should.

Each changes a function of torch's in the process of a rank, which only one feature calls.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from difftest.cases.case import Case
from workers.faults import of_feature
from workers.training.session import Session


def _with(session: Session, owner: Any, name: str, spoiled: Callable[..., Any]) -> Session:  # noqa: ANN401
    """The session in whose process `owner.name` is `spoiled`, from placing on."""

    def place(module: nn.Module) -> nn.Module:
        setattr(owner, name, spoiled)
        return session.place(module)

    return replace(session, place=place)


@of_feature("save_and_load", about="a parameter that was saved is not loaded")
def parameter_not_loaded(session: Session, _case: Case, _rank: int) -> Session:
    """The last one of the file; it keeps the value that it has."""
    load = nn.Module.load_state_dict

    def spoiled(module: nn.Module, saved: dict[str, Any], *_: object, **__: object) -> object:
        kept = dict(saved)
        kept.popitem()
        return load(module, kept, strict=False)

    return _with(session, nn.Module, "load_state_dict", spoiled)


@of_feature(
    "save_and_load",
    about="the optimizer's state is not loaded",
    reaches=lambda case: case.training.optimizer != "sgd",
)
def optimizer_not_loaded(session: Session, _case: Case, _rank: int) -> Session:
    """It begins anew."""
    return _with(session, torch.optim.Optimizer, "load_state_dict", lambda *_: None)


@of_feature("schedule", about="a scheduler counts every second step only")
def schedule_too_slow(session: Session, _case: Case, _rank: int) -> Session:
    """The first call counts, so that the first two steps are as they should be."""
    step, calls = lr_scheduler.LRScheduler.step, list[None]()

    def spoiled(scheduler: lr_scheduler.LRScheduler, *arguments: Any) -> None:  # noqa: ANN401
        calls.append(None)
        if len(calls) != 2:  # noqa: PLR2004  the first call is the constructor's
            step(scheduler, *arguments)

    return _with(session, lr_scheduler.LRScheduler, "step", spoiled)


@of_feature("evaluation", about="a module in evaluation changes what it is trained on")
def evaluation_changes_weights(session: Session, _case: Case, _rank: int) -> Session:
    """Its first parameter grows by a part in eight."""
    evaluate = nn.Module.eval

    def spoiled(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            next(module.parameters()).mul_(1.125)
        return evaluate(module)

    return _with(session, nn.Module, "eval", spoiled)


@of_feature("clip_by_value", about="gradients are clipped from above only")
def clipped_from_above(session: Session, _case: Case, _rank: int) -> Session:
    """Negative gradients stay what they are."""

    def spoiled(parameters: Iterable[torch.Tensor], value: float) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.clamp_(max=value)

    return _with(session, nn.utils, "clip_grad_value_", spoiled)
