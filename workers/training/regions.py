"""What is cut of activations where tensors have placements: between layers the sequence, and the classes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Placements, Replicate, Shard
from workers.training.tp_plan import AXIS

if TYPE_CHECKING:
    from torch import nn


def between(module: "nn.Module") -> Iterator[tuple[str, "nn.Module"]]:
    """The layers of a placed model that another follows, by name."""
    yield from list(module.named_children())[:-1]


def in_sequence(case: Case) -> Placements:
    """The placements of activations between layers: the batch's, and the sequence cut over tp."""
    return _over_tp(case, Shard(1))


def in_classes(case: Case) -> Placements:
    """The placements of the output: the batch's, and its last dim cut over tp."""
    return _over_tp(case, Shard(2 if case.model.sequence else 1))


def _over_tp(case: Case, cut: Shard) -> Placements:
    placed = zip(case.layout.mesh.names, case.layout.batch, strict=True)
    return tuple(cut if name == AXIS and at == Replicate() else at for name, at in placed)
