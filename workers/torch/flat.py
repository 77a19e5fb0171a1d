"""FSDP1's flat parameters: each rank of a sharding group holds an interval of all of a module's numbers.

An interval is no block of a tensor, so that no placement describes it. The parts of a group's ranks are put
together here, and cut as the layout has it. Groups that replicate each other are read apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import distributed, nn

from difftest.cases.layout import local_slices
from difftest.judge.outcome import Array, Sharded
from workers.torch.process_groups import Member


@dataclass(slots=True)
class FlatParameters:
    """The parameters of one rank's module, and who holds the rest of them."""

    member: Member
    module: nn.Module | None = None

    def shared(self, tensors: Mapping[Any, Sharded]) -> dict[Any, Sharded]:
        """Every tensor that some rank of this one's sharding group holds a part of, as the layout cuts it.

        A rank without elements of a parameter has no gradient for it, so the names are those of all ranks.
        """
        group = self.member.mesh.get_group(self.member.case.layout.mesh.names[-1])
        everything: list[Mapping[Any, Sharded]] = [{} for _ in range(group.size())]
        distributed.all_gather_object(everything, dict(tensors), group)
        names = {key: None for each in everything for key in each}
        return {key: self._joined(key[1], [each[key] for each in everything if key in each]) for key in names}

    def _joined(self, name: str, parts: list[Sharded]) -> Sharded:
        case = self.member.case
        placements = case.layout.parameters[name]
        shape = case.model.parameters().get(name)
        pieces = [next(iter(part.pieces.values())) for part in parts]
        if shape is None:  # a buffer, which every rank holds whole
            return replace(parts[0], pieces={self.member.rank: pieces[0]})
        whole: Array = np.concatenate([piece.reshape(-1) for piece in pieces])
        if whole.size == int(np.prod(shape)):
            whole = whole.reshape(shape)[local_slices(shape, placements, case.layout.mesh, self.member.rank)]
        devices = tuple(sorted({device for part in parts for device in part.devices}))
        return replace(
            parts[0], shape=shape, placements=placements, pieces={self.member.rank: whole}, devices=devices
        )

    def clip(self, _parameters: Iterator[nn.Parameter], norm: float) -> None:
        """By the norm over all ranks, which only the wrapper knows."""
        from torch.distributed.fsdp import FullyShardedDataParallel

        assert isinstance(self.module, FullyShardedDataParallel)  # noqa: S101  placed before
        self.module.clip_grad_norm_(norm)
