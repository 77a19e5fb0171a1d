"""How simple a case is: the order in which every simplification goes down, so that a reduction ends.

Tuples of counts compare from the left: fewer ranks are worth any number of layers, a layer any number of options, and so on.
"""

from collections.abc import Iterable, Iterator

import msgspec

from difftest.cases.case import Case, uneven_cuts
from difftest.cases.layers import (
    Activation,
    Attention,
    Collective,
    Conv,
    Embedding,
    FlashAttention,
    Layer,
    LayerNorm,
    Linear,
    Redistribute,
    RMSNorm,
    walk,
)
from difftest.cases.layout import Shard
from difftest.reduce.candidate import Candidate

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
REGIMES = ("normal", "exact")
"""From the simplest; all others are alike."""

SIZES = ("inputs", "outputs", "width", "vocabulary", "kernel", "heads", "kv_heads", "length", "keys")

_KINDS: dict[type, int] = {
    Attention: 4,
    FlashAttention: 5,
    Conv: 2,
    Embedding: 2,
    LayerNorm: 3,
    RMSNorm: 2,
    Collective: 2,
}


def measure(case: Case) -> tuple[int, ...]:
    """Ranks, mesh axes, steps, layers by kind, features and options, sharded placements, those that share unevenly, sizes."""
    layers = [layer for _, layer in walk(case.model.layers)]
    cuts = sum(
        isinstance(p, Shard)
        for placed in (case.layout.batch, *case.layout.parameters.values())
        for p in placed
    )
    options = sum(1 for _ in case.put_back())
    features = sum(sum(_features(layer)) for layer in layers) + sum(_training(case)) + options
    sizes = sum(sum(_sizes(layer)) for layer in layers) + case.data.batch + case.model.sequence
    kinds = sum(map(_kind, layers))
    return (
        case.world_size,
        len(case.layout.mesh.axes),
        case.training.steps,
        kinds,
        features,
        cuts,
        uneven_cuts(case),
        sizes,
    )


def simpler(case: Case, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those that are simpler than `case`: a smaller size may cut something unevenly that was not."""
    return (candidate for candidate in candidates if measure(candidate[1]) < measure(case))


def _kind(layer: Layer) -> int:
    return 1 + (layer.function != "relu") if isinstance(layer, Activation) else _KINDS.get(type(layer), 1)


def _features(layer: Layer) -> Iterator[int]:
    match layer:
        case Linear():
            yield from (layer.bias, layer.tied)
        case Attention():
            yield from (layer.causal, layer.segments, layer.kv_heads != layer.heads)
        case FlashAttention():
            yield from (layer.causal, layer.segments, layer.bias, layer.scale is not None)
            yield from (layer.keys != layer.length, layer.key_heads != layer.heads)
        case Collective():
            yield from (layer.reduction != "sum", layer.factor != 1.0, layer.form != "single")
        case Redistribute():
            yield layer.by != "redistribute"
        case _:
            return


def _training(case: Case) -> Iterator[int]:
    training, data = case.training, case.data
    yield OPTIMIZERS.index(training.optimizer)
    yield training.accumulation
    yield from (
        training.clip_norm is not None,
        training.loss != "mse",
        training.checkpointing,
        case.dtype != "float32",
    )
    yield REGIMES.index(data.regime) if data.regime in REGIMES else len(REGIMES)
    yield from (data.ignored > 0.0, data.learnable)


def _sizes(layer: Layer) -> Iterator[int]:
    for field in layer.__struct_fields__:
        if field in SIZES and (size := getattr(layer, field)) is not msgspec.UNSET:
            yield size
