"""Planted faults of sharding: pieces swapped, cut short, placed elsewhere or paired with the wrong rows."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layout import Shard, local_slices
from difftest.judge.stage import Stage
from workers.faults import SHARDING, planted
from workers.training.session import Session
from workers.training.wrapped_names import parameters


def _sharded_parameter(case: Case) -> str | None:
    """A parameter cut along dim 0 into pieces of two rows or more."""
    shapes, mesh = case.model.parameters(), case.layout.mesh
    for name, placements in case.layout.parameters.items():
        if Shard(0) in placements and case.world_size > 1:
            piece = local_slices(shapes[name], placements, mesh, 0)[0]
            if piece.stop - piece.start > 1 and len(shapes[name]) > 1:
                return name
    return None


def _has_sharded(case: Case) -> bool:
    return _sharded_parameter(case) is not None


def _uneven_parameter(case: Case) -> str | None:
    """A parameter whose dim 0 the ranks do not share equally."""
    shapes, mesh = case.model.parameters(), case.layout.mesh
    for name, placements in case.layout.parameters.items():
        cuts = (local_slices(shapes[name], placements, mesh, rank)[0] for rank in range(case.world_size))
        if len({cut.stop - cut.start for cut in cuts}) > 1:
            return name
    return None


def _two_axes_mixed(case: Case) -> bool:
    """The batch is cut along one axis and whole along the next, and both have several ranks."""
    sizes = case.layout.mesh.shape
    return (
        len(sizes) == 2  # noqa: PLR2004
        and min(sizes) > 1
        and case.layout.batch[0] == Shard(0)
        and case.layout.batch[1] != Shard(0)
    )


def _late_bias(case: Case) -> str | None:
    """A whole bias beside a weight cut along its inputs."""
    layout = case.layout
    if layout.mesh.size("tp") == 1:
        return None
    axis = layout.mesh.names.index("tp")
    weights = [name for name, placements in layout.parameters.items() if placements[axis] == Shard(1)]
    return next((b for w in weights if (b := w.removesuffix("weight") + "bias") in layout.parameters), None)


@planted(
    about="two rows of a sharded parameter change places",
    backends=("torch_dtensor", "torch_fsdp", "xla_spmd"),
    blame=SHARDING,
    reaches=_has_sharded,
)
def shard_rows_swapped(session: Session, case: Case, _rank: int) -> Session:
    """Rows 0 and 1 of one sharded parameter, as it is placed."""
    name = _sharded_parameter(case)

    def place(module: nn.Module) -> nn.Module:
        if name:
            with torch.no_grad():
                weight = parameters(module)[name]
                weight[[0, 1]] = weight[[1, 0]]
        return session.place(module)

    return replace(session, place=place)


@planted(
    about="the remainder of an uneven shard gets no gradient",
    backends=("torch_dtensor", "xla_spmd"),
    blame=SHARDING,
    reaches=lambda case: _uneven_parameter(case) is not None,
)
def remainder_dropped(session: Session, case: Case, _rank: int) -> Session:
    """The last row of an unevenly cut parameter never learns: its gradient is dropped."""
    name = _uneven_parameter(case)

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD and name:
            _zero_last_row(parameters(module)[name])

    return replace(session, after=after)


def _zero_last_row(parameter: nn.Parameter) -> None:
    gradient = parameter.grad
    assert gradient is not None  # noqa: S101  after backward
    shape = (gradient.shape[0], *[1] * (gradient.dim() - 1))
    rows = torch.ones(shape, dtype=gradient.dtype, device=gradient.device)
    rows[-1] = 0
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(gradient, DTensor):
        whole = gradient.full_tensor() * rows
        parameter.grad = distribute_tensor(whole, gradient.device_mesh, gradient.placements)
    else:
        parameter.grad = gradient * rows


@planted(
    about="rows are dealt out along the wrong mesh axis",
    backends=("torch_tp",),
    blame=SHARDING,
    reaches=_two_axes_mixed,
)
def mesh_axes_swapped(session: Session, case: Case, rank: int) -> Session:
    """A rank takes its rows by its place on the other mesh axis. One device has no other axis."""
    if not _two_axes_mixed(case):
        return session
    mesh, sizes = case.layout.mesh, case.layout.mesh.shape
    first, second = mesh.coordinate(rank)
    coordinate = (second % sizes[0], first % sizes[1])
    elsewhere = next(rank for rank in range(mesh.world_size) if mesh.coordinate(rank) == coordinate)

    def feed(tensor: Tensor) -> Tensor:
        mine = local_slices(tuple(tensor.shape), case.layout.batch, mesh, elsewhere)
        return tensor[mine].clone()

    return replace(session, feed=feed)


@planted(
    about="a parameter is cut along dim 1 instead of 0",
    backends=("torch_dtensor",),
    blame=SHARDING,
    reaches=_has_sharded,
)
def placement_transposed(session: Session, case: Case, _rank: int) -> Session:
    """Redistributes the parameter once it is placed."""
    name = _sharded_parameter(case)

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        if name:
            from torch.distributed.tensor import DTensor
            from torch.distributed.tensor import Shard as TorchShard

            path, _, leaf = name.rpartition(".")
            old = placed.get_parameter(name)
            assert isinstance(old, DTensor)  # noqa: S101  torch_dtensor places DTensors
            turned = [
                TorchShard(1) if isinstance(p, TorchShard) and p.dim == 0 else p for p in old.placements
            ]
            replaced = nn.Parameter(old.redistribute(placements=turned).detach())
            setattr(placed.get_submodule(path), leaf, replaced)
        return placed

    return replace(session, place=place)


@planted(
    about="gradients are clipped by each rank's own norm",
    backends=("torch_fsdp",),
    blame=SHARDING,
    reaches=lambda case: case.training.clip_norm is not None and case.world_size > 1,
)
def clipped_by_piece(session: Session, _case: Case, _rank: int) -> Session:
    """Every rank clips by the norm of its own pieces."""

    def clip(trained: Iterator[nn.Parameter], norm: float) -> None:
        gradients = [p.grad.to_local() for p in trained if p.grad is not None]  # type: ignore[attr-defined]
        own = torch.stack([g.float().norm() for g in gradients]).norm()
        for gradient in gradients:
            gradient.mul_(min(1.0, norm / (own.item() + 1e-6)))

    return replace(session, clip=clip)


@planted(
    about="optimizer state does not follow its parameter's shard",
    backends=("torch_fsdp", "torch_dtensor"),
    blame=SHARDING,
    reaches=lambda case: _has_sharded(case) and case.training.steps > 1 and case.training.optimizer != "sgd",
)
def momentum_not_sharded_alike(session: Session, case: Case, _rank: int) -> Session:
    """The optimizer's buffers are a row off their parameter's shard. One rank has no shards to miss."""
    if case.world_size == 1:
        return session

    def after(stage: Stage, _step: int, _module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values() if stage is Stage.UPDATE else ():
            for buffer in state.values():
                if isinstance(buffer, Tensor) and buffer.dim() > 0:
                    local = buffer.to_local() if hasattr(buffer, "to_local") else buffer
                    local.copy_(local.roll(1, 0))

    return replace(session, after=after)


@planted(
    about="a whole bias is added once a rank",
    backends=("xla_spmd", "torch_dtensor"),
    blame=SHARDING,
    reaches=lambda case: _late_bias(case) is not None,
)
def bias_on_every_rank(session: Session, case: Case, _rank: int) -> Session:
    """A replicated bias is added once for every rank of the tensor axis.

    This is what happens when it is added before the reduction.
    """
    name = _late_bias(case)

    def place(module: nn.Module) -> nn.Module:
        if name:
            ranks = case.layout.mesh.size("tp")
            module.get_submodule(name.removesuffix(".bias")).register_forward_hook(
                lambda layer, _inputs, output: output + layer.bias * (ranks - 1)
            )
        return session.place(module)

    return replace(session, place=place)
