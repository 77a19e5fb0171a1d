"""Planted faults of arithmetic: precision that is lost, types that change, updates that are forgotten."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.judge.stage import Stage
from workers.faults import BACKEND, EVERYWHERE, planted
from workers.training.session import Session
from workers.training.wrapped_names import parameters


def _has_linear(case: Case) -> bool:
    return any(name.endswith("weight") and len(shape) > 1 for name, shape in case.model.parameters().items())


def _with_changed_gradient(session: Session, change: Callable[[Tensor], Tensor]) -> Session:
    """The session in which the first parameter's gradient is changed, on every rank alike."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD:
            parameter = next(iter(parameters(module).values()))
            parameter.grad = change(parameter.grad)  # type: ignore[arg-type]

    return replace(session, after=after)


@planted(
    about="a float32 case's linear layers accumulate in bfloat16",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=lambda case: case.dtype == "float32" and _has_linear(case),
)
def bfloat16_accumulation(session: Session, _case: Case, _rank: int) -> Session:
    """Rounds the outputs of linear layers to bfloat16."""

    def place(module: nn.Module) -> nn.Module:
        for inner in module.modules():
            if isinstance(inner, nn.Linear):
                inner.register_forward_hook(
                    lambda _module, _inputs, output: output.to(torch.bfloat16).to(output.dtype)
                )
        return session.place(module)

    return replace(session, place=place)


@planted(about="the model's output has another dtype", backends=EVERYWHERE, blame=BACKEND)
def wrong_dtype_out(session: Session, _case: Case, _rank: int) -> Session:
    """bfloat16 for float32, and float32 for everything else."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        wrong = torch.bfloat16 if session.dtype == torch.float32 else torch.float32
        placed.register_forward_hook(lambda _module, _inputs, output: output.to(wrong))
        return placed

    return replace(session, place=place)


@planted(
    about="one gradient is off by one part in a thousand",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=lambda case: case.dtype == "float32",
)
def gradient_slightly_off(session: Session, _case: Case, _rank: int) -> Session:
    """By a factor of 1 + 2^-10."""
    return _with_changed_gradient(session, lambda gradient: gradient * (1 + 2.0**-10))


@planted(about="one gradient has the wrong sign", backends=EVERYWHERE, blame=BACKEND)
def gradient_negated(session: Session, _case: Case, _rank: int) -> Session:
    """The size of every element is right."""
    return _with_changed_gradient(session, lambda gradient: -gradient)


@planted(about="one parameter loses its gradient before the update", backends=EVERYWHERE, blame=BACKEND)
def update_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """The last parameter is never updated."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD:
            list(parameters(module).values())[-1].grad = None

    return replace(session, after=after)
