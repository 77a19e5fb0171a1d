"""Flash attention on XLA: torch_xla's own wrapper over its Pallas kernels.

Its `partition_spec` follows from the layout. The axes that cut the batch shard dim 0 of queries, keys and
values. The axes that cut every layer's projections by columns shard the heads, dim 1, where they divide them.
This is what a user of the wrapper would write. What is placed otherwise, the compiler moves there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from difftest.cases.layout import Placements, Replicate, Shard
from workers.xla import devices, pallas, sharding

if TYPE_CHECKING:
    from torch import Tensor

    from workers.training.operators import Operators, Scores


def refusal(case: Case) -> str | None:
    """Why flash attention in `case` cannot run with what is installed here, or None."""
    return pallas.refusal(devices.fitting(case)) if case.model.flash_attentions else None


def operators(world: sharding.World) -> "tuple[Operators, dict[str, str]]":
    """The operators for `case` with flash attention, and a description of the kernels for its environment.

    A case without flash attention gets the usual operators.

    `NotImplementedError` where the kernels cannot run.
    """
    from workers.training.operators import Operators

    if not world.case.model.flash_attentions:
        return Operators(), {}
    how = pallas.install(devices.kind())
    spec = partition_spec(world.case) if world.case.world_size > 1 else None
    return Operators(attend=_Wrapper(mesh=world.mesh, spec=spec).attend), {
        "pallas": how,
        "partition_spec": str(spec),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """torch_xla's wrapper for one mesh. `spec` is None where nothing is sharded."""

    mesh: Any
    spec: sharding.Spec | None

    def attend(self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
        """`workers.training.operators.attend` by the Pallas kernels."""
        import torch
        from torch_xla.experimental.custom_kernel import flash_attention

        ids = [None, None] if scores.segments is None else [side.to(torch.int32) for side in scores.segments]
        scale, ab, where = scores.scale, scores.ab, {"partition_spec": self.spec, "mesh": self.mesh}
        if ab is not None:  # the kernel adds it before it scales; a case, like SDPA, adds it afterwards
            query, scale, ab = query * scale, 1.0, ab.expand(len(query), -1, -1, -1)
        mixed: Tensor = flash_attention(query, key, value, scores.causal, *ids, scale, ab=ab, **where)
        return mixed


def partition_spec(case: Case) -> sharding.Spec:
    """The mesh axes that shard (batch, heads, length, head_dim)."""
    return sharding.partition_spec(4, _placements(case), case.layout.mesh.names)


def _placements(case: Case) -> Placements:
    """The placements of queries, keys and values: dim 0 as the batch, dim 1 as the heads."""
    placements: list[Shard | Replicate] = []
    parts = 1
    for axis, size in enumerate(case.layout.mesh.shape):
        if case.layout.batch[axis] == Shard(0):
            placements.append(Shard(0))
            continue
        by_heads = _cuts_heads(case, axis, parts * size)
        parts *= size if by_heads else 1
        placements.append(Shard(1) if by_heads else Replicate())
    return tuple(placements)


def _cuts_heads(case: Case, axis: int, parts: int) -> bool:
    """Whether a mesh axis cuts every projection of flash attention by columns, and `parts` divide its heads.

    `axis` is the axis's number.
    """
    flash, placed = case.model.flash_attentions, case.layout.parameters
    return all(
        placed[f"{path}.q.weight"][axis] == Shard(0) and layer.key_heads % parts == 0
        for path, layer in flash.items()
    )
