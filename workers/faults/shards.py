"""Planted faults of further options of `fully_shard`, and of Muon.

Each changes a function that only one option, or one feature, calls.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim import _muon

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.gathered import prefetched, resting
from workers.faults import BACKEND, SHARDING, planted
from workers.faults.features import replacing
from workers.training.session import Session

FSDP, PATHS = ("torch_fsdp",), ("shards",)


@planted(
    paths=PATHS,
    about="what is gathered ahead of the forward pass is off",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: any(way == "forward" for way, _, _ in prefetched(case)),
)
def gathered_ahead_wrong(session: Session, _case: Case, _rank: int) -> Session:
    """The module computes an eighth too much."""

    def spoiled(_module: FSDPModule, ahead: list[nn.Module]) -> None:
        for one in ahead:
            one.register_forward_hook(lambda _module, _inputs, output: output * 1.125)

    return replacing(session, FSDPModule, "set_modules_to_forward_prefetch", spoiled)


@planted(
    paths=PATHS,
    about="parameters that stay gathered between parts stay so over an update",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.kept_between and case.training.steps > 1,
)
def kept_over_updates(session: Session, _case: Case, _rank: int) -> Session:
    """The second step computes with the weights of the first."""
    right = FSDPModule.set_reshard_after_backward

    def spoiled(module: FSDPModule, _reshard: bool, **_options: Any) -> None:  # noqa: ANN401, FBT001
        right(module, False)  # noqa: FBT003  torch's signature

    return replacing(session, FSDPModule, "set_reshard_after_backward", spoiled)


@planted(
    paths=PATHS,
    about="an embedding that is not gathered in the backward pass is not trained",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: bool(resting(case)),
)
def resting_untrained(session: Session, _case: Case, _rank: int) -> Session:
    """Its weight has no gradient."""

    def spoiled(module: nn.Module, _unshard: bool) -> None:  # noqa: FBT001  torch's signature
        module.requires_grad_(requires_grad=False)

    return replacing(session, FSDPModule, "set_unshard_in_backward", spoiled)


@planted(
    paths=PATHS,
    about="the gradients of an ignored parameter are a rank's own",
    backends=FSDP,
    blame=SHARDING,
    reaches=lambda case: case.sharded_by.ignored is not None and case.world_size > 1,
)
def ignored_not_averaged(session: Session, _case: Case, _rank: int) -> Session:
    """Nothing averages them."""
    return replace(session, after=lambda *_: None)


@planted(
    paths=PATHS,
    about="a divide factor that is set by its older name does nothing",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: (
        case.sharded_by.by_older_name
        and case.sharded_by.gradient_divide_factor not in (None, float(case.layout.data_ranks))
    ),
)
def older_name_ignored(session: Session, _case: Case, _rank: int) -> Session:
    """Gradients are divided by the number of ranks."""
    return replacing(session, FSDPModule, "set_reduce_scatter_divide_factor", lambda *_: None)


@planted(
    paths=PATHS,
    about="an update is lost by what waits for it",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: has(case, "optimizer_event"),
)
def event_loses_update(session: Session, _case: Case, _rank: int) -> Session:
    """The first parameter shrinks by a part in eight."""

    def spoiled(module: nn.Module, _event: torch.Event) -> None:
        with torch.no_grad():
            next(module.parameters()).mul_(0.875)

    return replacing(session, FSDPModule, "set_post_optim_event", spoiled)


@planted(
    paths=PATHS,
    about="Muon makes every shard orthogonal by itself",
    backends=FSDP,
    blame=SHARDING,
    reaches=lambda case: has(case, "muon") and case.layout.mesh.shape[-1] > 1,
)
def orthogonal_by_shard(session: Session, _case: Case, _rank: int) -> Session:
    """As if a shard were the matrix."""
    right = _muon._zeropower_via_newtonschulz  # noqa: SLF001  what its step calls

    def spoiled(gradient: Tensor, *others: Any) -> Tensor:  # noqa: ANN401  coefficients
        if not isinstance(gradient, DTensor) or not gradient.to_local().numel():
            return right(gradient, *others)
        update = right(gradient.to_local().clone(), *others)
        placed = gradient.placements
        return DTensor.from_local(
            update, gradient.device_mesh, placed, shape=gradient.shape, stride=gradient.stride()
        )

    return replacing(session, _muon, "_zeropower_via_newtonschulz", spoiled)


@planted(
    paths=PATHS,
    about="Muon's steps are half as long",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: has(case, "muon"),
)
def orthogonal_steps_short(session: Session, _case: Case, _rank: int) -> Session:
    """By its rate."""
    right = _muon._adjust_lr  # noqa: SLF001  what its step calls
    return replacing(session, _muon, "_adjust_lr", lambda *of_matrix: right(*of_matrix) / 2)
