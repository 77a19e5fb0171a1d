"""Defects of arithmetic: precision that is lost, types that change, updates that are forgotten."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.judge.outcome import Stage
from workers.faults import BACKEND, Fault
from workers.training.session import Session
from workers.training.train import parameters

EVERYWHERE = ("torch_ddp", "torch_dtensor", "xla_spmd")


def _has_linear(case: Case) -> bool:
    return any(name.endswith("weight") and len(shape) > 1 for name, shape in case.model.parameters().items())


def _outputs(
    change: Callable[[Tensor], Tensor], kinds: tuple[type[nn.Module], ...]
) -> Callable[[Session, Case, int], Session]:
    """Plants a change of what the modules of some kinds give out."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def place(module: nn.Module) -> nn.Module:
            for inner in module.modules():
                if isinstance(inner, kinds):
                    inner.register_forward_hook(lambda _module, _inputs, output: change(output))
            return session.place(module)

        return replace(session, place=place)

    return plant


def _through_bfloat16(output: Tensor) -> Tensor:
    return output.to(torch.bfloat16).to(output.dtype)


def _other_dtype(session: Session, _case: Case, _rank: int) -> Session:
    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        wrong = torch.bfloat16 if session.dtype == torch.float32 else torch.float32
        placed.register_forward_hook(lambda _module, _inputs, output: output.to(wrong))
        return placed

    return replace(session, place=place)


def _gradients(change: Callable[[Tensor], Tensor]) -> Callable[[Session, Case, int], Session]:
    """Plants a change of the first parameter's gradient, on every rank alike."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
            if stage is Stage.BACKWARD:
                parameter = next(iter(parameters(module).values()))
                parameter.grad = change(parameter.grad)  # type: ignore[arg-type]

        return replace(session, after=after)

    return plant


def _forget_update(session: Session, _case: Case, _rank: int) -> Session:
    """The last parameter is never updated."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD:
            list(parameters(module).values())[-1].grad = None

    return replace(session, after=after)


FAULTS = (
    Fault(
        name="bfloat16_accumulation",
        about="a float32 case's linear layers accumulate in bfloat16",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda case: case.dtype == "float32" and _has_linear(case),
        plant=_outputs(_through_bfloat16, (nn.Linear,)),
    ),
    Fault(
        name="wrong_dtype_out",
        about="the model's output has another dtype",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_other_dtype,
    ),
    Fault(
        name="gradient_slightly_off",
        about="one gradient is off by one part in a thousand",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda case: case.dtype == "float32",
        plant=_gradients(lambda gradient: gradient * (1 + 2.0**-10)),
    ),
    Fault(
        name="gradient_negated",
        about="one gradient has the wrong sign",
        backends=EVERYWHERE,
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_gradients(lambda gradient: -gradient),
    ),
    Fault(
        name="update_forgotten",
        about="one parameter loses its gradient before the update",
        backends=("torch_ddp", "torch_dtensor", "xla_spmd"),
        blame=BACKEND,
        reaches=lambda _case: True,
        plant=_forget_update,
    ),
)
