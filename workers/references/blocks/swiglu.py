"""The gated feed-forward layer SwiGLU (Shazeer, 2020)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected, sigmoid


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """`down(silu(gate(x)) * up(x))`; packed, the rows of both matrices follow each other."""
    has_bias = arguments["bias"]

    def through(name: str, values: Array) -> Array:
        return projected(
            values, context.own(f"{name}.weight"), context.own(f"{name}.bias") if has_bias else None
        )

    if arguments["packed"]:
        both = through("gate_up", inputs)
        gate, up = both[..., : both.shape[-1] // 2], both[..., both.shape[-1] // 2 :]
    else:
        gate, up = through("gate", inputs), through("up", inputs)
    return through("down", gate * sigmoid(gate, context) * up)
