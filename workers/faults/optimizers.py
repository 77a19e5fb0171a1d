"""Planted faults of what a feature of training makes of the optimizer."""

from typing import Any

import torch

from difftest.cases.case import Case
from workers.faults import SHARDING, of_feature
from workers.faults.features import before_updates, replacing, without
from workers.training.features.optimizer import CLASSES
from workers.training.session import Session


@of_feature("nesterov", about="Nesterov momentum is plain momentum")
def nesterov_ignored(session: Session, _case: Case, _rank: int) -> Session:
    """In every step."""
    return without(session, "nesterov")


@of_feature("weight_decay", about="weights do not decay")
def decay_ignored(session: Session, _case: Case, _rank: int) -> Session:
    """None of them."""
    return without(session, "weight_decay")


@of_feature("tensor_rate", about="a learning rate that is a tensor is halved in every step")
def rate_halved(session: Session, _case: Case, _rank: int) -> Session:
    """In place, as by a schedule that forgets what the rate was."""

    def act(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].mul_(0.5)

    return before_updates(session, act)


@of_feature("capturable", about="a count of steps on the device stays 1", backends=("xla_spmd",))
def steps_not_counted(session: Session, _case: Case, _rank: int) -> Session:
    """Adam corrects its moments as in the first step."""

    def act(optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values():
            if state["step"].device.type != "cpu":
                state["step"].zero_()

    return before_updates(session, act)


@of_feature("optimizer", about="an optimizer that is used seldom takes steps that are an eighth too short")
def steps_too_short(session: Session, _case: Case, _rank: int) -> Session:
    """All that are not Adam's or SGD's, by moving their weights back."""

    def spoiled(kind: Any) -> Any:  # noqa: ANN401  a class
        def step(optimizer: torch.optim.Optimizer, *_: object) -> None:
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            before = [one.detach().clone() for one in parameters]
            kind.step(optimizer)
            with torch.no_grad():
                for parameter, old in zip(parameters, before, strict=True):
                    parameter.lerp_(old, 0.125)

        return type(kind.__name__, (kind,), {"step": step})

    for name, kind in list(CLASSES.items()):
        CLASSES[name] = spoiled(kind)
    return session


@of_feature(
    "sharded_optimizer",
    about="what another replica updated does not arrive",
    reaches=lambda case: case.world_size > 1,
    backends=("torch_ddp",),
    blame=SHARDING,
)
def update_not_sent(session: Session, _case: Case, _rank: int) -> Session:
    """Every replica keeps the old weights where it does not update them itself."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return replacing(session, ZeroRedundancyOptimizer, "_sync_params", lambda _optimizer: None)
