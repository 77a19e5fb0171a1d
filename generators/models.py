"""Models of few narrow layers: a stem, blocks that keep the width, a head.

Layers and blocks are drawn by `generators.layers`, sizes by `generators.sizes`. Every model has well under
`MOST_PARAMETERS` numbers: what a backend gets wrong, it gets wrong on small ones.
"""

import functools
import itertools
from typing import Literal, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.activation import Activation
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.model import Model, width_out
from generators.chances import always, mixed, sometimes, weighted
from generators.layers import Layers, middle_blocks
from generators.layers.activation import activations
from generators.layers.conv import convs
from generators.layers.embedding import embeddings
from generators.layers.layer_norm import norms
from generators.layers.linear import draw_linear
from generators.layers.redistribute import redistributes
from generators.layers.residual import mlps
from generators.sizes import sequences, widths

MOST_PARAMETERS = 20_000
MOST_EXACT_WIDTH = 8
EXACT_HIDDEN = ((4,), (5,), (6,), (7,), (8,), (), (4, 4))
"""Widths between exact layers.

They are wide enough that relu seldom stops every gradient, and narrow enough that sums are exact in float32.
"""

Purpose: TypeAlias = Literal["ordinary", "exact", "learnable"]
"""The kind of comparison a case is for.

`ordinary`: within rounding. `exact`: bit for bit, because nothing rounds. `learnable`: over a run that learns
a task.
"""


@functools.cache
def models(*, purpose: Purpose = "ordinary", unit: int = 1) -> SearchStrategy[Model]:
    """Models for `purpose`."""
    match purpose:
        case "exact":
            return exact_models()
        case "learnable":
            return learnable_models(unit=unit)
        case _:
            kinds = vector_models(unit=unit), sequence_models(unit=unit), token_models(unit=unit)
            return mixed((3, kinds[0]), (2, kinds[1]), (3, kinds[2]))


@functools.cache
@st.composite
def vector_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of (batch, width): Linear layers, norms and activations."""
    width = draw(widths(unit=unit))
    stem = draw_linear(draw, inputs=draw(widths()), outputs=width)
    blocks = _draw_stack(draw, width=width, unit=unit, sequence=False)
    return Model(layers=(stem, *blocks, *draw(_heads(width=width, unit=unit))))


@functools.cache
@st.composite
def sequence_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of (batch, sequence, width): attention and convolutions too."""
    width, inputs = draw(widths(unit=unit)), draw(widths())
    stems: Layers = (
        draw(convs(inputs=inputs, outputs=width)),
        Linear(inputs=inputs, outputs=width),
    )
    blocks = _draw_stack(draw, width=width, unit=unit, sequence=True)
    layers = (draw(st.sampled_from(stems)), *blocks, *draw(_heads(width=width, unit=unit)))
    return Model(layers=layers, sequence=draw(sequences()))


@functools.cache
@st.composite
def token_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Models of token ids: an embedding, blocks, often a norm, and a head that may be tied."""
    width = draw(widths(unit=unit))
    embedding = draw(embeddings(width=width, unit=unit))
    blocks = _draw_stack(draw, width=width, unit=unit, sequence=True)
    last = (draw(norms(width=width)),) if draw(st.booleans()) else ()
    tied = draw_linear(draw, inputs=width, outputs=embedding.vocabulary, tied=True)
    head = draw(mixed((2, always((tied,))), (3, _heads(width=width, unit=unit))))
    return Model(
        layers=(embedding, *blocks, *last, *head),
        sequence=draw(sequences()),
    )


@functools.cache
@st.composite
def exact_models(draw: st.DrawFn) -> Model:
    """Linear layers and relu, so small that every sum of one step is exact in float32.

    `difftest.cases.exactness` proves it for each case. The number of outputs is a power of two, so that the
    mean divides exactly.
    """
    hidden, relu = draw(st.sampled_from(EXACT_HIDDEN)), draw(st.booleans())
    most = min(hidden, default=MOST_EXACT_WIDTH) if len(hidden) > 1 else MOST_EXACT_WIDTH
    sizes = (draw(st.integers(2, most)), *hidden, draw(st.sampled_from((4, 1, 2, most))))
    layers: Layers = ()
    for inputs, outputs in itertools.pairwise(sizes):
        layers += (Activation(function="relu"),) if relu and len(layers) == 1 else ()
        layers += (draw_linear(draw, inputs=inputs, outputs=outputs),)
    return Model(layers=layers, sequence=draw(weighted((2, 0), (1, 4))))


@functools.cache
@st.composite
def learnable_models(draw: st.DrawFn, *, unit: int = 1) -> Model:
    """Small models with at most one block, which learn their teacher's task in a few dozen steps.

    `difftest.cases.numbers` has the teachers.
    """
    allowed = [width for width in (8, 12, 16, 24) if width % unit == 0] or [2 * unit]
    width, outputs = draw(st.sampled_from(allowed)), draw(weighted((2, 4), (1, 3), (1, 8)))
    block: Layers = (draw(mlps(width=width, unit=unit)),) if draw(st.booleans()) else ()
    head = Linear(inputs=width, outputs=outputs)
    if draw(st.booleans()):
        stem = Embedding(vocabulary=draw(st.sampled_from((8, 12, 16))), width=width)
        return Model(layers=(stem, *block, head), sequence=draw(st.sampled_from((4, 8))))
    stems = (
        Linear(inputs=draw(st.sampled_from((8, 3, 5, 12))), outputs=width),
        draw(activations()),
    )
    return Model(layers=(*stems, *block, head))


@functools.cache
@st.composite
def moving(draw: st.DrawFn, *, models: SearchStrategy[Model], axes: int) -> Model:
    """One of `models`; in a fifth, activations move to other placements over `axes` mesh axes and back.

    The move may come before all layers too: a framework may treat a batch unlike the results of its
    operators.
    """
    model = draw(models)
    if not draw(sometimes(one_in=5)):
        return model
    at = draw(st.integers(1 if model.tokens else 0, len(model.layers)))
    width = width_out(model.layers[:at], model.inputs)
    move = draw(redistributes(width=width, axes=axes, sequence=model.sequence > 0))
    return Model(layers=(*model.layers[:at], move, *model.layers[at:]), sequence=model.sequence)


def _draw_stack(draw: st.DrawFn, *, width: int, unit: int, sequence: bool) -> Layers:
    """Up to three blocks whose outputs are as wide as their inputs."""
    kinds = [
        (block.weight, block.strategy(width, unit))
        for block in middle_blocks()
        if sequence or not block.needs_sequence
    ]
    count, kind = draw(weighted((2, 1), (2, 2), (1, 0), (1, 3))), mixed(*kinds)
    return tuple(layer for _ in range(count) for layer in draw(kind))


@functools.cache
@st.composite
def _heads(draw: st.DrawFn, *, width: int, unit: int) -> Layers:
    """A last Linear layer, seldom with a single output, or nothing."""
    outputs = draw(mixed((7, widths(unit=unit)), (1, always(1))))
    head = draw_linear(draw, inputs=width, outputs=outputs)
    return draw(weighted((3, (head,)), (1, ())))


@st.composite
def repeated(draw: st.DrawFn, *, model: Model) -> Model:
    """The model with one of its residual blocks applied two or three times; the same where it has none."""
    blocks = [index for index, layer in enumerate(model.layers) if isinstance(layer, Residual)]
    if not blocks:
        return model
    layers, at = list(model.layers), draw(st.sampled_from(blocks))
    layers[at] = msgspec.structs.replace(layers[at], times=draw(st.integers(2, 3)))
    return msgspec.structs.replace(model, layers=tuple(layers))
