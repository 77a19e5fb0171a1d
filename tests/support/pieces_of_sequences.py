"""Cases whose sequences are cut over `cp`."""

from typing import Any

from sharded_cases import S0, S1, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import BLOCK, FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh, Placements
from difftest.cases.model import Model

RING = Mesh((("cp", 2),))
GRID = Mesh((("dp", 2), ("cp", 2)))
WITHOUT = Model(
    sequence=8,
    layers=(
        Embedding(vocabulary=12, width=8),
        Residual(layers=(LayerNorm(width=8), Linear(inputs=8, outputs=8))),
        Linear(inputs=8, outputs=6),
    ),
)
PARTS = Training(steps=1, accumulation=2, clip_norm=0.25, optimizer="momentum")


def in_pieces(mesh: Mesh = RING, model: Model | None = None, *, sharded: bool = False, **fields: Any) -> Case:  # noqa: ANN401
    """A case whose sequences are cut over `cp`; `fields` are those of its attention."""
    attention = FlashAttention(width=8, heads=2, head_dim=8, length=BLOCK, keys=BLOCK, **fields)
    attending = Model(
        sequence=BLOCK,
        layers=(Linear(inputs=5, outputs=8), Residual(layers=(attention,)), Linear(inputs=8, outputs=4)),
    )
    axes = len(mesh.axes)
    batch: Placements = (S0, S1)[-axes:]
    whole: Placements = (R,) * axes
    placed: dict[str, Placements] = {"": (*whole[1:], S0) if sharded else whole}
    return a_sharded_case(mesh, batch, placed, model=model or attending, training=PARTS, rows=4)
