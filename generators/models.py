"""Models of few narrow layers: a stem, blocks that keep the width, a head.

`unit` is what widths should usually be multiples of (the size of the axis that will cut them); other widths still occur, so that uneven
shards do. Every model has well under `MOST_PARAMETERS` numbers: what a backend gets wrong, it gets wrong on small ones.
"""

import functools
import itertools
from typing import Literal, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Mesh
from difftest.cases.model import Model, width_out
from generators.chances import mixed, sometimes, weighted

MOST_PARAMETERS = 20_000
MOST_WIDTH = 32
MOST_HEADS = 8
WIDTHS = (8, 2, 3, 4, 5, 6, 7, 12, 16, 24, 32)
MOST_EXACT_WIDTH = 8
EXACT_HIDDEN = ((4,), (5,), (6,), (7,), (8,), (), (4, 4))
"""Widths between exact layers: so wide that relu seldom stops every gradient, so narrow that the sums stay within float32."""
LEAST_LAYER_NORM = 3
"""Over two numbers a LayerNorm keeps only their order: its gradient is nothing but cancellation."""

Purpose: TypeAlias = Literal["ordinary", "exact", "learnable"]
"""What a case is for: comparing within rounding, bit for bit (nothing may round), or over a run that learns a task."""

Layers: TypeAlias = tuple[Layer, ...]


def models(*, purpose: Purpose = "ordinary", unit: int = 1) -> SearchStrategy[Model]:
    """Models fit for `purpose`."""
    match purpose:
        case "exact":
            return exact_models()
        case "learnable":
            return learnable_models(unit=unit)
        case _:
            kinds = vector_models(unit=unit), sequence_models(unit=unit), token_models(unit=unit)
            return mixed((3, kinds[0]), (2, kinds[1]), (3, kinds[2]))


@st.composite
def vector_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of (batch, width): Linear layers, norms and activations."""
    width = draw(widths(unit=unit))
    stem = Linear(inputs=draw(widths()), outputs=width, bias=draw(st.booleans()))
    blocks = draw(_stacks(width=width, unit=unit, sequence=False))
    return Model(layers=(stem, *blocks, *draw(_heads(width=width, unit=unit))))


@st.composite
def sequence_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of (batch, sequence, width): attention and convolutions too."""
    width, inputs = draw(widths(unit=unit)), draw(widths())
    stems: Layers = (
        Conv(inputs=inputs, outputs=width, kernel=draw(_kernels())),
        Linear(inputs=inputs, outputs=width),
    )
    blocks = draw(_stacks(width=width, unit=unit, sequence=True))
    layers = (draw(st.sampled_from(stems)), *blocks, *draw(_heads(width=width, unit=unit)))
    return Model(layers=layers, sequence=draw(sequences()))


@st.composite
def token_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of token ids: an embedding, blocks, usually a norm, and a head that may be tied to the embedding."""
    width, vocabulary = draw(widths(unit=unit)), draw(vocabularies(unit=unit))
    blocks = draw(_stacks(width=width, unit=unit, sequence=True))
    last = (draw(_norms(width=width)),) if draw(st.booleans()) else ()
    tied = Linear(inputs=width, outputs=vocabulary, bias=draw(st.booleans()), tied=True)
    head = draw(mixed((2, st.just((tied,))), (3, _heads(width=width, unit=unit))))
    return Model(
        layers=(Embedding(vocabulary=vocabulary, width=width), *blocks, *last, *head),
        sequence=draw(sequences()),
    )


@st.composite
def exact_models(draw: st.DrawFn) -> Model:
    """Linear layers and relu so small that no sum of one step outgrows float32 (`difftest.cases.exactness` proves it of every case).

    The outputs are a power of two, so that the mean divides exactly.
    """
    hidden, relu = draw(st.sampled_from(EXACT_HIDDEN)), draw(st.booleans())
    most = min(hidden, default=MOST_EXACT_WIDTH) if len(hidden) > 1 else MOST_EXACT_WIDTH
    sizes = (draw(st.integers(2, most)), *hidden, draw(st.sampled_from((4, 1, 2, most))))
    layers: list[Layer] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [Activation(function="relu")] if relu and len(layers) == 1 else []
        layers.append(Linear(inputs=inputs, outputs=outputs, bias=draw(st.booleans())))
    return Model(layers=tuple(layers), sequence=draw(weighted((2, 0), (1, 4))))


@st.composite
def learnable_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Small models that learn `difftest.cases.numbers`'s teachers within a few dozen steps: nothing between input and head but one block."""  # noqa: E501
    allowed = [width for width in (8, 12, 16, 24) if width % unit == 0] or [2 * unit]
    width, outputs = draw(st.sampled_from(allowed)), draw(weighted((2, 4), (1, 3), (1, 8)))
    block: Layers = (draw(mlps(width=width, unit=unit)),) if draw(st.booleans()) else ()
    head = Linear(inputs=width, outputs=outputs)
    if draw(st.booleans()):
        stem = Embedding(vocabulary=draw(st.sampled_from((8, 12, 16))), width=width)
        return Model(layers=(stem, *block, head), sequence=draw(st.sampled_from((4, 8))))
    stems = (
        Linear(inputs=draw(st.sampled_from((8, 3, 5, 12))), outputs=width),
        Activation(function=draw(_functions())),
    )
    return Model(layers=(*stems, *block, head))


@st.composite
def moving(draw: st.DrawFn, *, models: SearchStrategy[Model], axes: int) -> Model:
    """One of `models`, now and then with its activations moved to other placements over `axes` mesh axes and back, somewhere.

    Before all layers too: what a framework does with a batch it may not do with what its operators give.
    """
    model = draw(models)
    if not draw(sometimes(one_in=5)):
        return model
    at = draw(st.integers(1 if model.tokens else 0, len(model.layers)))
    dims = st.sampled_from((0, 1, None, 2) if model.sequence else (0, 1, None))
    move = Redistribute(
        width=width_out(model.layers[:at], model.inputs),
        dims=tuple(draw(dims) for _ in range(axes)),
        by=draw(st.sampled_from(("redistribute", "full_tensor", "to_local"))),
    )
    return Model(layers=(*model.layers[:at], move, *model.layers[at:]), sequence=model.sequence)


@st.composite
def mlps(draw: st.DrawFn, *, width: int, unit: int = 1) -> Residual:
    """The transformer's residual block: norm, Linear, activation, Linear."""
    hidden = draw(widths(unit=unit))
    up = Linear(inputs=width, outputs=hidden, bias=draw(st.booleans()))
    down = Linear(inputs=hidden, outputs=width, bias=draw(st.booleans()))
    return Residual(layers=(draw(_norms(width=width)), up, Activation(function=draw(_functions())), down))


@st.composite
def attentions(draw: st.DrawFn, *, width: int, unit: int = 1) -> Attention:
    """Attention with every division of `width` into heads, and of the heads among key and value heads."""
    heads = draw(_multiples(_divisors(width), unit))
    kv_heads = draw(_multiples(_divisors(heads), unit))
    causal, segments = draw(weighted((3, True), (2, False))), draw(sometimes(one_in=3))
    return Attention(width=width, heads=heads, kv_heads=kv_heads, causal=causal, segments=segments)


@functools.cache
def widths(*, unit: int = 1) -> SearchStrategy[int]:
    """Widths up to `MOST_WIDTH`, usually multiples of `unit`, odd ones too."""
    return _multiples(
        tuple(sorted({unit, 2 * unit, 4 * unit, *WIDTHS} & set(range(2, MOST_WIDTH + 1)))), unit
    )


@functools.cache
def sequences() -> SearchStrategy[int]:
    """Sequence lengths."""
    return st.sampled_from((8, 4, 5, 6, 7, 12, 16))


@functools.cache
def vocabularies(*, unit: int = 1) -> SearchStrategy[int]:
    """Vocabularies from 8 to 48."""
    return _multiples((16, 8, 11, 13, 24, 30, 32, 48), unit)


@st.composite
def _stacks(draw: st.DrawFn, *, width: int, unit: int, sequence: bool) -> Layers:
    """Up to three blocks that keep the width."""
    kinds = [
        (3, _residual_mlps(width, unit)),
        (2, _plain_pairs(width, unit)),
        (1, _norm_blocks(width)),
        (1, _linears(width)),
    ]
    if sequence:
        kinds += [(4, _attention_blocks(width, unit)), (2, _conv_blocks(width))]
    kinds.append((1, _dropouts(width)))
    count, kind = draw(weighted((2, 1), (2, 2), (1, 0), (1, 3))), mixed(*kinds)
    return tuple(layer for _ in range(count) for layer in draw(kind))


@st.composite
def _heads(draw: st.DrawFn, *, width: int, unit: int) -> Layers:
    """A last Linear layer, seldom to a single number, or nothing."""
    outputs = draw(mixed((7, widths(unit=unit)), (1, st.just(1))))
    head = Linear(inputs=width, outputs=outputs, bias=draw(st.booleans()))
    return draw(weighted((3, (head,)), (1, ())))


@functools.cache
def _residual_mlps(width: int, unit: int) -> SearchStrategy[Layers]:
    return mlps(width=width, unit=unit).map(lambda block: (block,))


@st.composite
def _plain_pairs(draw: st.DrawFn, width: int, unit: int) -> Layers:
    hidden = draw(widths(unit=unit))
    up = Linear(inputs=width, outputs=hidden, bias=draw(st.booleans()))
    return (
        up,
        Activation(function=draw(_functions())),
        Linear(inputs=hidden, outputs=width, bias=draw(st.booleans())),
    )


@st.composite
def _attention_blocks(draw: st.DrawFn, width: int, unit: int) -> Layers:
    """Usually residual behind a norm, as transformers have it."""
    attention = draw(attentions(width=width, unit=unit))
    residual = Residual(layers=(draw(_norms(width=width)), attention))
    return draw(weighted((4, (residual,)), (1, (attention,))))


@st.composite
def _conv_blocks(draw: st.DrawFn, width: int) -> Layers:
    conv = Conv(inputs=width, outputs=width, kernel=draw(_kernels()))
    active = (conv, Activation(function=draw(_functions())))
    return draw(st.sampled_from((active, (Residual(layers=active),))))


@functools.cache
def _norm_blocks(width: int) -> SearchStrategy[Layers]:
    return _norms(width=width).map(lambda norm: (norm,))


@st.composite
def _linears(draw: st.DrawFn, width: int) -> Layers:
    return (
        Activation(function=draw(_functions())),
        Linear(inputs=width, outputs=width, bias=draw(st.booleans())),
    )


@functools.cache
def _dropouts(width: int) -> SearchStrategy[Layers]:
    """Between blocks, where every rank has the whole width: the mask is cut like the batch."""
    return st.sampled_from((0.5, 0.25, 0.125)).map(lambda share: (Dropout(width=width, share=share),))


@functools.cache
def _norms(*, width: int) -> SearchStrategy[Layer]:
    kinds: list[Layer] = [RMSNorm(width=width)]
    return st.sampled_from([*kinds, LayerNorm(width=width)] if width >= LEAST_LAYER_NORM else kinds)


@functools.cache
def _functions() -> SearchStrategy[Literal["relu", "gelu", "silu", "tanh"]]:
    return st.sampled_from(("relu", "gelu", "silu", "tanh"))


@functools.cache
def _kernels() -> SearchStrategy[int]:
    return weighted((3, 3), (1, 1), (1, 5))


@functools.cache
def _multiples(sizes: tuple[int, ...], unit: int) -> SearchStrategy[int]:
    """One of `sizes`, a multiple of `unit` three times as often as any other."""
    return weighted(*((1 if size % unit else 3, size) for size in sizes))


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(part for part in range(1, min(number, MOST_HEADS) + 1) if number % part == 0)


@st.composite
def grouped(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Model:
    """`model`; in a quarter of those with flash attention, query heads share heads of keys and values, which the ranks share evenly."""
    fewer = tuple(_with_key_heads(layer, mesh) for layer in model.layers)
    if fewer == model.layers or not draw(sometimes(one_in=4)):
        return model
    return msgspec.structs.replace(model, layers=fewer)


def _with_key_heads(layer: Layer, mesh: Mesh) -> Layer:
    """With as few heads of keys as there are ranks of `tp`, where that is fewer than there are heads of queries."""
    if isinstance(layer, Residual):
        return msgspec.structs.replace(
            layer, layers=tuple(_with_key_heads(inner, mesh) for inner in layer.layers)
        )
    if not isinstance(layer, FlashAttention):
        return layer
    least = dict(mesh.axes).get("tp", 1)
    possible = (
        least < layer.heads and layer.heads % least == 0 and least * layer.head_dim % mesh.world_size == 0
    )
    return msgspec.structs.replace(layer, kv_heads=least) if possible else layer
