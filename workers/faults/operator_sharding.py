"""Planted faults of operators on sharded tensors: ranks, partial sums, padding and order."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operator
from difftest.cases.layout import PartialBy, Shard, local_slices
from workers.faults import SHARDING, of_operators, planted
from workers.faults.features import replacing
from workers.training.program_hooks import (
    Change,
    floats_only,
    function,
    has_gradient,
    piecewise,
    runs,
    with_gradient,
    with_operands,
    with_results,
)
from workers.training.session import Session

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SUMS = frozenset({"sum", "mean", "nansum", "logsumexp", "matmul", "mm", "linear", "var", "std", "norm"})
EXTREMES = frozenset({"amax", "max"})
SOFTMAXES = frozenset({"softmax", "log_softmax", "logsumexp"})


def _cuts(case: Case) -> Iterator[tuple[Operator, tuple[int, ...], int, int]]:
    """The cuts of float operands: the operator, the operand's shape, the dim, and rank 0's share of it."""
    for path, layer in case.model.operators.items():
        for name, operand in layer.operands.items():
            placements = case.layout.parameters[f"{path}.{name}"]
            for dim in {at.dim for at in placements if isinstance(at, Shard)} if operand.is_float else ():
                own = local_slices(operand.shape, placements, case.layout.mesh, 0)[dim]
                if 0 < own.stop - own.start < operand.shape[dim]:
                    yield layer, operand.shape, dim, own.stop - own.start


def _is_cut(case: Case) -> bool:
    return runs(case) and next(_cuts(case), None) is not None


def _cut_in(case: Case, names: frozenset[str], *, uneven: bool = False) -> bool:
    """Whether one of the operators gets an operand that is cut (`uneven`: not into equal pieces)."""
    return runs(case) and any(
        function(layer) in names and not (uneven and shape[dim] % own == 0)
        for layer, shape, dim, own in _cuts(case)
    )


def _padded(case: Case) -> float:
    """How many times the padded size of the first uneven cut is its real size."""
    for _, shape, dim, own in _cuts(case):
        if shape[dim] % own:
            return math.ceil(shape[dim] / own) * own / shape[dim]
    return 1.0


def _of_first_rank(case: Case, change: Change) -> Change:
    """`change` of what rank 0 holds of a tensor of the shape of a cut operand, and of no other tensor."""
    cuts = {shape: (dim, own) for _, shape, dim, own in _cuts(case)}

    def spoil(tensor: Tensor) -> Tensor:
        if tuple(tensor.shape) not in cuts:
            return tensor
        dim, own = cuts[tuple(tensor.shape)]
        first, others = tensor.split((own, tensor.shape[dim] - own), dim)
        return torch.cat((first, change(others)), dim)

    return spoil


def _everywhere(case: Case, rank: int, change: Change) -> Change:
    """`change` of what all ranks but the first hold of cut tensors: of a DTensor's piece, or of a slice."""
    from torch.distributed.tensor import DTensor

    whole = _of_first_rank(case, change)

    def spoil(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, DTensor):
            return whole(tensor)
        is_cut = any(placement.is_shard() for placement in tensor.placements)
        # All ranks, because what is done to a DTensor's piece has a collective in its backward pass.
        return piecewise(tensor, change if rank else torch.clone) if is_cut else tensor

    return floats_only(spoil)


@of_operators(about="results on other ranks than the first are wrong", blame=SHARDING, reaches=_is_cut)
def other_ranks_wrong(session: Session, case: Case, rank: int) -> Session:
    """What goes into operators there is off by a quarter."""
    return with_operands(session, _everywhere(case, rank, lambda tensor: tensor * 1.25))


@of_operators(
    about="a sum over shards is that of the first one",
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, SUMS),
)
def partial_unreduced(session: Session, case: Case, rank: int) -> Session:
    """What the other ranks hold counts as 0."""
    change = _everywhere(case, rank, lambda tensor: tensor * 0.0)
    return with_operands(session, change, lambda layer: function(layer) in SUMS)


@of_operators(
    about="a sum over shards is reduced twice",
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, frozenset({"sum", "matmul", "mm", "linear"})),
)
def partial_reduced_twice(session: Session, case: Case, _rank: int) -> Session:
    """The result is as many times too great as there are ranks."""
    size = float(case.world_size)
    return with_results(session, floats_only(lambda one: one * size), lambda layer: function(layer) in SUMS)


@of_operators(
    about="a mean over uneven shards counts the padding",
    backends=("xla_spmd",),  # DTensor averages the local means itself
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, frozenset({"mean"}), uneven=True),
)
def padding_in_mean(session: Session, case: Case, _rank: int) -> Session:
    """It is divided by the padded size."""
    share = 1.0 / _padded(case)
    return with_results(
        session, floats_only(lambda one: one * share), lambda layer: function(layer) == "mean"
    )


@of_operators(
    about="a sum over uneven shards has the padding in it",
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, frozenset({"sum"}), uneven=True),
)
def padding_in_sum(session: Session, case: Case, _rank: int) -> Session:
    """The padding holds ones."""
    more = 1.0 * (case.world_size > 1)
    return with_results(session, floats_only(lambda one: one + more), lambda layer: function(layer) == "sum")


@of_operators(
    about="a maximum over uneven shards has the padding in it",
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, EXTREMES, uneven=True),
)
def padding_in_maximum(session: Session, case: Case, _rank: int) -> Session:
    """The padding holds a number greater than all others."""

    def change(tensor: Tensor) -> Tensor:
        return piecewise(tensor, lambda piece: piece.clamp_min(100.0)) if case.world_size > 1 else tensor

    return with_results(session, floats_only(change), lambda layer: function(layer) in EXTREMES)


@of_operators(
    about="a softmax over uneven shards has the padding in it",
    blame=SHARDING,
    reaches=lambda case: _cut_in(case, SOFTMAXES, uneven=True),
)
def padding_in_softmax(session: Session, case: Case, _rank: int) -> Session:
    """It adds up to less than 1."""
    share = 1.0 / _padded(case)
    return with_results(
        session, floats_only(lambda one: one * share), lambda layer: function(layer) in SOFTMAXES
    )


@of_operators(about="shards are in the wrong order", blame=SHARDING, reaches=_is_cut)
def shards_in_wrong_order(session: Session, case: Case, _rank: int) -> Session:
    """The parameters' rows are reversed along the first cut, as they are placed on several ranks."""

    def place(module: nn.Module) -> nn.Module:
        cut = next(_cuts(case), None)
        if cut and case.world_size > 1:
            _, shape, dim, _ = cut
            with torch.no_grad():
                for parameter in module.parameters():
                    if tuple(parameter.shape) == shape:
                        parameter.copy_(parameter.flip(dim))
        return session.place(module)

    return replace(session, place=place)


@of_operators(
    about="a gradient is reduced twice",
    blame=SHARDING,
    reaches=lambda case: has_gradient(case) and _is_cut(case),
)
def gradient_reduced_twice(session: Session, case: Case, _rank: int) -> Session:
    """It is as many times too great as there are ranks."""
    size = float(case.world_size)
    return with_gradient(session, lambda gradient: gradient * size)


def _has_shares_of_a_mean(case: Case) -> bool:
    placements = (
        pair
        for at in case.layout.parameters.values()
        for pair in zip(at, case.layout.mesh.shape, strict=True)
    )
    return any(placement == PartialBy("avg") and ranks > 1 for placement, ranks in placements)


@planted(
    paths=("partial_operands",),
    about="shares of a mean are added up and not divided",
    backends=("torch_dtensor",),
    blame=SHARDING,
    reaches=_has_shares_of_a_mean,
)
def mean_undivided(session: Session, _case: Case, _rank: int) -> Session:
    """Where DTensor makes a value of them."""
    from torch.distributed.tensor import Partial

    right = Partial._reduce_value  # noqa: SLF001  no public name

    def added(self: Partial, tensor: Tensor, mesh: "DeviceMesh", mesh_dim: int) -> Tensor:
        whole = right(self, tensor, mesh, mesh_dim)
        return whole * mesh.size(mesh_dim) if self.reduce_op == "avg" else whole

    return replacing(session, Partial, "_reduce_value", added)
