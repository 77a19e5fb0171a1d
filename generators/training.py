"""How a case is trained and what it is fed: dtype, regime, optimizer, batch.

The one idea: the regime, the kind of numbers, decides first, and only numbers that a comparison can judge are
drawn. Learning rates are powers of two so small that parameters do not explode in the regime. Half types and
long runs are not combined with regimes in which they overflow, underflow or lose their information.
"""

import functools
import itertools
import math
from typing import Literal, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case, DType, Regime, Training
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.cases.layout import Layout, Mesh, chunk
from difftest.cases.model import Model
from generators.chances import always, equally, mixed, sometimes, weighted
from generators.layers.flash_attention import MOST_SCORES
from generators.models import Purpose

Loss: TypeAlias = Literal["mse", "cross_entropy", "cotangent", "first_cotangent", "own"]
Optimizer: TypeAlias = Literal["sgd", "momentum", "adam", "adamw"]

MOST_ROWS = 32
MOST_EXACT_ROWS = 16
LEAST_EXACT_ROWS = 4
"""With fewer rows the model may fit the small integers exactly, and then there is no gradient."""

MOST_LAYERS_UNNORMED = 6
LEAST_TARGETS_IGNORED = 16
"""With fewer targets all of them may be ignored, and then there is no gradient to compare."""

LEARNING_STEPS = (24, 20, 28, 30)
LARGE_RATES: dict[Loss, float] = {"mse": 2.0**-24, "cross_entropy": 2.0**-12}
ADAM_RATES = (2.0**-7, 2.0**-10)
SGD_RATES: dict[Optimizer, tuple[float, ...]] = {
    "sgd": (2.0**-3, 2.0**-4, 2.0**-6),
    "momentum": (2.0**-4, 2.0**-6),
}


@functools.cache
def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """The purposes of cases on `mesh`.

    Exact means need a power of two of ranks on every axis, and few enough rows for all ranks.
    """
    exact: tuple[tuple[int, Purpose], ...] = ((3, "exact"),) if fits_exact(mesh) else ()
    return weighted((26, "ordinary"), *exact, (2, "learnable"))


def fits_exact(mesh: Mesh) -> bool:
    """Whether `mesh` allows exact cases.

    A batch for all ranks, in two accumulation parts too, must have at most `MOST_EXACT_ROWS` rows, and every
    mean must divide exactly.
    """
    return 2 * mesh.world_size <= MOST_EXACT_ROWS and all(map(_is_power_of_two, mesh.shape))


@functools.cache
def dtypes(*, purpose: Purpose = "ordinary") -> SearchStrategy[DType]:
    """Element types; only float32 outside ordinary cases."""
    return (
        weighted((13, "float32"), (5, "bfloat16"), (2, "float16"))
        if purpose == "ordinary"
        else always("float32")
    )


def regimes(*, model: Model, purpose: Purpose, dtype: DType) -> SearchStrategy[Regime]:
    """Kinds of numbers for a case of this purpose."""
    if purpose == "exact":
        return always("exact")
    if purpose == "learnable":
        return always("normal")
    fitting = fitting_regimes(model=model, dtype=dtype)
    return weighted(*fitting) if len(fitting) > 1 else always(fitting[0][1])


def fitting_regimes(*, model: Model, dtype: DType) -> tuple[tuple[int, Regime], ...]:
    """Kinds of numbers that `model` keeps finite and does not flush to zero in `dtype`, with their weights.

    Models of tokens get no sharp scores: equal tokens round alike, which the measured rounding noise does not
    show. Under sharp scores, where an error of a score is one of a weight, such errors added up to 16 times
    the noise. Flash attention gets no tiny numbers: over hundreds of positions that are nearly equal, the
    gradients of queries and keys are nothing but what rounding leaves of zero.
    """
    if model.tokens or any(layer.USUAL_NUMBERS for _, layer in walk(model.layers)):
        return ((1, "normal"),)
    usual: tuple[tuple[int, Regime], ...] = ((6, "normal"), (1, "ties"), (1, "zeros"))
    if dtype == "float16":
        return usual
    tiny: tuple[tuple[int, Regime], ...] = () if scores(model=model) else ((2, "tiny"),)
    large: tuple[tuple[int, Regime], ...] = ((2, "large"),) if keeps_large_finite(model) else ()
    attends = any(layer.ATTENTION_QUERIES for _, layer in walk(model.layers))
    sharp: tuple[tuple[int, Regime], ...] = ((4, "sharp"),) if attends else ()
    return (*usual, *tiny, *large, *sharp)


def keeps_large_finite(model: Model) -> bool:
    """Whether large inputs stay far from overflow.

    They do if a norm rescales them, or if few layers multiply them and no softmax gets them.
    """
    layers = [layer for _, layer in walk(model.layers)]
    growing = sum(layer.MAGNITUDE == "grows" for layer in layers)
    return any(layer.MAGNITUDE == "rescales" for layer in layers) or (
        not any(layer.ATTENTION_QUERIES for layer in layers) and growing <= MOST_LAYERS_UNNORMED
    )


def draw_training(
    draw: st.DrawFn, *, model: Model, purpose: Purpose, dtype: DType, regime: Regime
) -> Training:
    """Few steps of one optimizer; long runs only for learnable tasks."""
    if purpose == "exact":
        rate, parts = draw(equally(2.0**-3, 2.0**-5)), draw(weighted((2, 1), (1, 2)))
        return Training(optimizer="sgd", learning_rate=rate, accumulation=parts)
    loss = draw(losses(model=model))
    if purpose == "learnable":
        return draw_learnable_training(draw, model=model, loss=loss)
    optimizer = draw(optimizers(dtype=dtype))
    return Training(
        optimizer=optimizer,
        learning_rate=draw(learning_rates(optimizer=optimizer, regime=regime, loss=loss)),
        steps=draw(step_counts(dtype=dtype, regime=regime, scores_a_row=scores(model=model))),
        accumulation=draw(weighted((5, 1), (2, 2), (1, 3) if not scores(model=model) else (1, 2))),
        clip_norm=draw(weighted((3, None), (1, 1.0), (1, 0.25))),
        loss=loss,
        checkpointing=has_blocks(model=model) and draw(sometimes(one_in=5)),
    )


def has_blocks(*, model: Model) -> bool:
    """Whether checkpointing has blocks to compute again in the backward pass."""
    return any(layer.held is not None for layer in model.layers)


def draw_wire_type(draw: st.DrawFn, *, case: Case) -> Case:
    """`case`; an exact collective often in a half type, if nothing rounds in that type either."""
    if case.data.regime != "exact" or not any(layer.BETWEEN_RANKS for layer in case.model.layers):
        return case
    narrow = msgspec.structs.replace(
        case, dtype=draw(weighted((1, "float32"), (2, "bfloat16"), (1, "float16")))
    )
    return narrow if inexact(narrow) is None else case


@functools.cache
def step_counts(*, dtype: DType, regime: Regime, scores_a_row: int = 0) -> SearchStrategy[int]:
    """Few updates.

    After more, half types and large numbers show only their own drift, and flash attention takes long.
    """
    if scores_a_row > MOST_SCORES // 4:
        return always(1)
    short = dtype != "float32" or regime == "large" or scores_a_row > 0
    return weighted((1, 1), (1, 2)) if short else weighted((3, 1), (4, 2), (3, 3), (1, 5))


def draw_learnable_training(draw: st.DrawFn, *, model: Model, loss: Loss) -> Training:
    """A long run at a learning rate with which float64 solves the task."""
    optimizer = draw(optimizers())
    rate = learning_rate(optimizer=optimizer, model=model, loss=loss)
    return Training(optimizer=optimizer, learning_rate=rate, steps=draw(equally(*LEARNING_STEPS)), loss=loss)


def learning_rate(*, optimizer: Optimizer, model: Model, loss: Loss) -> float:
    """The learning rate with which a model of `learnable_models` solves its task in float64.

    Of 498 that were tried, the worst ended at 0.35 of its first loss. The squared error is a mean over the
    outputs, so the rate can be greater with more outputs.
    """
    if optimizer in ("adam", "adamw"):
        return 2.0**-5
    outputs = 2.0 ** round(math.log2(model.outputs))
    rate = outputs / (8 if model.tokens else 16) if loss == "mse" else 0.5
    return rate / 4 if optimizer == "momentum" else rate


def losses(*, model: Model) -> SearchStrategy[Loss]:
    """The losses that `model`'s outputs allow; classes need at least two outputs."""
    if model.outputs == 1:
        return always("mse")
    return (
        weighted((1, "mse"), (3, "cross_entropy"))
        if model.tokens
        else weighted((3, "mse"), (2, "cross_entropy"))
    )


@functools.cache
def optimizers(*, dtype: DType = "float32") -> SearchStrategy[Optimizer]:
    """All optimizers; not Adam in float16, where its epsilon of 1e-8 is 0 and it would divide by zero."""
    plain: tuple[tuple[int, Optimizer], ...] = ((4, "sgd"), (2, "momentum"))
    return weighted(*plain) if dtype == "float16" else weighted(*plain, (2, "adam"), (2, "adamw"))


@functools.cache
def learning_rates(*, optimizer: Optimizer, regime: Regime, loss: Loss) -> SearchStrategy[float]:
    """Powers of two; tiny where gradients are large."""
    if optimizer in ("adam", "adamw"):
        return equally(*ADAM_RATES)
    return always(LARGE_RATES[loss]) if regime == "large" else equally(*SGD_RATES[optimizer])


def draw_batch(
    draw: st.DrawFn, *, model: Model, layout: Layout, training: Training, exact: bool = False
) -> int:
    """A number of rows of a batch: every data rank has a row in every accumulation part.

    There are few rows if attention has many scores.
    """
    accumulation = training.accumulation
    parts = tuple(size for name, size in layout.mesh.axes if name in layout.batch_axes)
    most = (
        MOST_EXACT_ROWS
        if exact
        else min(MOST_ROWS, MOST_SCORES // max(1, training.steps * scores(model=model)))
    )
    between = any(layer.BETWEEN_RANKS for layer in model.layers)
    rows = batch_rows(parts=parts, most=most // accumulation, exact=exact, uneven=not between)
    # Batch norm refuses a channel of one value while it trains.
    least = 2 if any(name.endswith(".running_mean") for name in model.statistics()) else 1
    return max(draw(rows), least) * accumulation


def scores(*, model: Model) -> int:
    """The number of scores of `model`'s flash attention for one row."""
    return sum(layer.heads * layer.length * layer.keys for layer in model.flash_attentions.values())


def ignored_shares(*, loss: Loss, targets: int) -> SearchStrategy[float]:
    """The share of targets, of which there are `targets`, that the loss ignores."""
    return (
        equally(0.0, 0.25, 0.5)
        if loss == "cross_entropy" and targets >= LEAST_TARGETS_IGNORED
        else always(0.0)
    )


@functools.cache
def batch_rows(
    *, parts: tuple[int, ...], most: int = MOST_ROWS, exact: bool = False, uneven: bool = True
) -> SearchStrategy[int]:
    """Numbers of rows of one accumulation part, cut over data axes of sizes `parts`.

    Mostly the cuts are even, and no rank is ever without a row.

    `uneven`: ranks may have different numbers of rows. A collective needs the same number from each.
    """
    least = math.prod(parts)
    allowed = [rows for rows in range(least, max(most, least) + 1) if every_rank_has_rows(rows, parts)]
    if exact:
        return st.sampled_from(
            [rows for rows in allowed if rows >= LEAST_EXACT_ROWS and _is_power_of_two(rows)]
        )
    even = [rows for rows in allowed if rows % least == 0]
    others = [rows for rows in allowed if rows % least] if uneven else []
    return mixed((4, equally(*even)), (1, equally(*(others or even))))


@functools.cache
def every_rank_has_rows(rows: int, parts: tuple[int, ...]) -> bool:
    """Whether every rank has a row after `torch.chunk` cuts `rows` over each of the axes in turn."""
    pieces = [rows]
    for size in parts:
        cuts = (chunk(piece, size, index) for piece, index in itertools.product(pieces, range(size)))
        pieces = [cut.stop - cut.start for cut in cuts]
    return min(pieces) > 0


def _is_power_of_two(number: int) -> bool:
    return number.bit_count() == 1
