"""Cases on the layouts that XLA's backends are tested with."""

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard
from difftest.cases.model import Model

S0, S1, R = Shard(0), Shard(1), Replicate()
TOLERANCE = 2e-6
PERCEPTRON = Model(
    layers=(Linear(inputs=6, outputs=9), Activation(function="tanh"), Linear(inputs=9, outputs=5))
)
TRANSFORMER = Model(
    sequence=6,
    layers=(
        Embedding(vocabulary=12, width=8),
        Residual(layers=(LayerNorm(width=8), Attention(width=8, heads=4, kv_heads=2, segments=True))),
        Residual(layers=(RMSNorm(width=8), Conv(inputs=8, outputs=8))),
        Linear(inputs=8, outputs=12, bias=False, tied=True),
    ),
)
MEGATRON = {"0.weight": S0, "0.bias": S0, "2.weight": S1}
DATA = Mesh((("dp", 4),))
SHARDED = Mesh((("dp_shard", 4),))
HYBRID = Mesh((("dp_replicate", 2), ("dp_shard", 2)))
TENSOR = Mesh((("tp", 4),))
GRID = Mesh((("dp", 2), ("tp", 2)))


def a_sharded_case(  # noqa: PLR0913  every part of a case
    mesh: Mesh = DATA,
    batch: Placements = (S0,),
    parameters: dict[str, Placements] | None = None,
    *,
    model: Model = PERCEPTRON,
    rows: int = 8,
    training: Training | None = None,
    ignored: float = 0.0,
) -> Case:
    """A case whose parameters have the placements in `parameters`.

    Other parameters have those of its entry "", or are replicated if there is none.
    """
    chosen = parameters or {}
    default = chosen.get("", (R,) * len(mesh.axes))
    layout = Layout(
        mesh=mesh, batch=batch, parameters={name: chosen.get(name, default) for name in model.parameters()}
    )
    data = Data(batch=rows, ignored=ignored)
    return Case(
        path="data_parallel", model=model, layout=layout, training=training or Training(steps=2), data=data
    )


CASES = {
    "data_parallel": a_sharded_case(training=Training(steps=2, optimizer="adamw")),
    "fully_sharded": a_sharded_case(
        SHARDED, (S0,), {"": (S0,)}, training=Training(steps=2, accumulation=2, clip_norm=0.25)
    ),
    "hybrid_sharded": a_sharded_case(HYBRID, (S0, S0), {"": (R, S0)}, rows=6),
    "tensor_parallel": a_sharded_case(
        TENSOR,
        (R,),
        {name: (p,) for name, p in MEGATRON.items()},
        training=Training(steps=2, optimizer="momentum"),
    ),
    "data_tensor": a_sharded_case(GRID, (S0, R), {name: (R, p) for name, p in MEGATRON.items()}, rows=5),
    "two axes on one dim": a_sharded_case(GRID, (S0, R), {"": (S0, S0)}, rows=7),
    "transformer": a_sharded_case(
        SHARDED,
        (S0,),
        {"": (S0,)},
        model=TRANSFORMER,
        training=Training(steps=2, optimizer="adam", loss="cross_entropy"),
        ignored=0.25,
    ),
}
