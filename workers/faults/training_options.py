"""Planted faults of a case's options of training, each of which only the cases with that option can show."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from workers.faults import BACKEND, EVERYWHERE, Plant, PlantedFault, planted
from workers.faults.features import replacing, without
from workers.training import spelling
from workers.training.session import Session


def _of_option(
    *, about: str, reaches: Callable[[Case], bool], backends: tuple[str, ...] = EVERYWHERE
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for the cases of the path that has features of training."""
    return planted(about=about, backends=backends, blame=BACKEND, reaches=reaches, paths=("features",))


def _recomputes(case: Case) -> bool:
    """Whether blocks are computed again; the first layer's input needs no gradient, so it is not."""
    return case.training.checkpointing and any(layer.held is not None for layer in case.model.layers[1:])


def _spoiled(recompute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A recomputation whose gradients are those of 9/8 of the block."""

    def grown(block: Callable[..., Tensor], *inputs: Any) -> Tensor:  # noqa: ANN401  tensors, and mappings
        output = recompute(block, *inputs)
        return output + 0.125 * (output - output.detach())

    return grown


@_of_option(
    about="a block that is computed again gives too great a gradient",
    reaches=lambda case: _recomputes(case) and not case.forms.torch_checkpoint,
)
def recomputed_too_great(session: Session, _case: Case, _rank: int) -> Session:
    """By the backend's own function for it."""
    operators = session.operators
    return replace(session, operators=replace(operators, recompute=_spoiled(operators.recompute)))


@_of_option(
    about="torch.utils.checkpoint gives too great a gradient",
    reaches=lambda case: _recomputes(case) and case.forms.torch_checkpoint,
    backends=("torch_ddp", "torch_dtensor"),
)
def torch_checkpoint_too_great(session: Session, _case: Case, _rank: int) -> Session:
    """With its default options."""
    spelling.recompute = _spoiled(spelling.recompute)
    return session


@_of_option(
    about="gradients are not clipped by their norm",
    reaches=lambda case: case.training.clip_norm is not None,
)
def norm_not_clipped(session: Session, _case: Case, _rank: int) -> Session:
    """Whatever it is."""
    return replace(session, clip=lambda _parameters, _norm: None)


@_of_option(
    about="momentum is forgotten",
    reaches=lambda case: case.training.optimizer == "momentum" and case.training.steps > 1,
)
def momentum_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """Descent along the gradient alone."""
    return without(session, "momentum")


@_of_option(
    about="what is computed without synchronization is lost",
    reaches=lambda case: case.replication.no_sync and case.training.accumulation > 1,
    backends=("torch_ddp",),
)
def unsynchronized_lost(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients are dropped when the context is left."""
    quiet = nn.parallel.DistributedDataParallel.no_sync

    @contextmanager
    def spoiled(module: nn.parallel.DistributedDataParallel) -> Iterator[None]:
        with quiet(module):
            yield
        for parameter in module.parameters():
            if parameter.grad is not None:
                with torch.no_grad():
                    parameter.grad.zero_()

    return replacing(session, nn.parallel.DistributedDataParallel, "no_sync", spoiled)
