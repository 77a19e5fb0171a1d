"""Planted faults of what tensor parallelism cuts beside parameters: the sequence, and the loss."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.numbers import IGNORE_INDEX
from difftest.cases.regions import norms
from difftest.judge.stage import Stage
from workers.faults import BACKEND, SHARDING, planted
from workers.faults.features import replacing
from workers.training import loss
from workers.training.session import Session
from workers.training.wrapped_names import parameters

STYLES = ("torch_tp",)


@planted(
    paths=("regions",),
    about="a norm learns from a piece of the sequence alone",
    backends=STYLES,
    blame=SHARDING,
    reaches=lambda case: bool(_norms(case)) and case.layout.mesh.size("tp") > 1,
)
def norm_of_a_piece(session: Session, case: Case, _rank: int) -> Session:
    """The gradients of its parameters are not added up over the ranks that have the other pieces."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD and case.world_size > 1:
            for name in _norms(case):
                parameter = parameters(module)[name]
                if parameter.grad is not None:
                    parameter.grad = parameter.grad / case.layout.mesh.size("tp")

    return replace(session, after=after)


def _norms(case: Case) -> list[str]:
    """The parameters of norms that work on pieces of the sequence."""
    paths = norms(case) if case.cut_by.sequence else set[str]()
    return [name for name in case.layout.parameters if name.rpartition(".")[0] in paths]


@planted(
    paths=("regions",),
    about="the loss counts the classes of the first rank alone",
    backends=(*STYLES, "torch_dtensor"),
    blame=SHARDING,
    reaches=lambda case: (
        case.cut_by.loss != "whole" and case.layout.mesh.size("tp") > 1 and len(case.layout.mesh.axes) == 1
    ),
)
def classes_of_one_rank(session: Session, case: Case, _rank: int) -> Session:
    """Targets of other classes are ignored."""
    whole, first = session.loss, -(-case.model.outputs // case.layout.mesh.size("tp"))
    if whole is None or case.world_size == 1:
        return session

    def loss(own: Case, output: Tensor, targets: Tensor, count: int) -> Tensor:
        local = targets.to_local() if hasattr(targets, "to_local") else targets
        return whole(own, output, torch.where(local < first, local, IGNORE_INDEX), count)

    return replace(session, loss=loss)


@planted(
    paths=("regions",),
    about="the weights of classes are forgotten",
    backends=("torch_dtensor", "xla_spmd"),
    blame=BACKEND,
    reaches=lambda case: case.cut_by.weighted and case.cut_by.loss == "whole" and not case.forms.torch_loss,
)
def weights_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """In the loss of the whole output."""
    return replacing(session, loss, "of_targets", lambda *_: 1.0)
