"""Cases of flash attention."""

from typing import Any

from samples import a_case

from difftest.cases.case import Case, Data, DType, Training
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Placements, Replicate, Shard

S0, S1, R = Shard(0), Shard(1), Replicate()
SINGLE_PRECISION = 2e-6
"""The greatest relative error of one correct pass in float32."""

BY_HEADS = {"q.weight": S0, "k.weight": S0, "v.weight": S0, "o.weight": S1, "ab": S0}


def flash(
    *axes: tuple[str, int],
    rows: int = 2,
    dtype: DType = "float32",
    training: Training | None = None,
    **layer: Any,  # noqa: ANN401  fields of the attention
) -> Case:
    """A case of flash attention between two Linear layers; `dp` shards the batch, `tp` the heads."""
    sizes: dict[str, Any] = {"width": 4, "heads": 2, "head_dim": 8, "length": 128, **layer}
    attention = FlashAttention(**{"keys": sizes["length"], **sizes})
    layers = (Linear(inputs=3, outputs=4), Residual(layers=(attention,)), Linear(inputs=4, outputs=3))
    mesh = axes or (("dp", 2),)
    cut = {
        f"1.0.{name}": tuple(p if axis == "tp" else R for axis, _ in mesh)
        for name, p in BY_HEADS.items()
        if attention.bias or name != "ab"
    }
    batch: Placements = tuple(R if axis == "tp" else S0 for axis, _ in mesh)
    return a_case(
        layers,
        mesh=mesh,
        batch=batch,
        sharded=cut,
        sequence=attention.length,
        training=training,
        fed=Data(batch=rows),
        dtype=dtype,
        path="flash_attention",
    )


GRID = (("dp", 2), ("tp", 2))
CASES = {
    "segments": flash(segments=True, rows=4, training=Training(steps=2)),
    "heads": flash(("tp", 2), causal=True, bias=True, scale=0.125),
    "both": flash(*GRID, segments=True, causal=True, head_dim=128),
    "fewer keys": flash(length=256, keys=128, causal=True, bias=True, scale=0.25),
    "several blocks of batch": flash(rows=6, segments=True),
    "heads that do not divide": flash(("tp", 2), heads=3, segments=True),
    "a long sequence": flash(length=512, heads=1, segments=True),
    "bfloat16": flash(*GRID, segments=True, dtype="bfloat16"),
    "checkpointing": flash(segments=True, training=Training(checkpointing=True)),
    "grouped heads": flash(*GRID, heads=4, kv_heads=2, segments=True, causal=True),
}
