"""Pipelines: the layers of a model in stages over `pp`, beside data axes or tensor parallelism or alone."""

import functools
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.options import Replication, Start
from difftest.cases.pipelining import AXIS, FOLDED, SINGLE, Beside, Handed, Pipeline, Schedule
from generators import features as training_features
from generators import layouts as places
from generators import models as shapes
from generators import training
from generators.chances import equally, mixed, sometimes, weighted
from generators.models import Purpose
from generators.paths import drawn_alone

if TYPE_CHECKING:
    from generators.layers import ByParameter, Layers, Placement

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone

AXES = (
    (8, (AXIS,)),
    (2, (AXIS, "dp")),
    (2, (AXIS, "dp_shard")),
    (1, (AXIS, "tp")),
    (1, (AXIS, "dp_shard", "tp")),
)
REPLICATED, SHARDED = "dp_replicate", "dp_shard"
MOST_AXES = 3
MOST_LAYERS = 10
MOST_ROUNDS = 3
FEW = 10
"""Of cases with several stages a rank, one in so many has fewer microbatches than ranks."""

FEATURES = ("frozen_layers", "save_and_load")

SCHEDULES: tuple[tuple[int, Schedule], ...] = (
    (6, "GPipe"),
    (6, "1F1B"),
    (2, "LoopedBFS"),
    (7, "Interleaved1F1B"),
    (9, "InterleavedZeroBubble"),
    (1, "ZBVZeroBubble"),
    (1, "DualPipeV"),
)
"""With their weights. Folded ones are one in sixteen: with torch 2.9 they never begin over gloo."""

HANDED: tuple[tuple[int, Handed], ...] = (
    (12, "tensor"),
    (3, "view"),
    (4, "two"),
    (1, "unused"),
    (1, "integers"),
    (1, "strided"),
    (3, "passed_on"),
    (3, "learned"),
)

BESIDE: tuple[tuple[int, Beside], ...] = ((3, "rows"), (3, "pair"), (1, "one_row"), (1, "number"))

OF_NUMBERS = ("two", "passed_on", "learned")
"""Not where a model is given token ids."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """`pp` with at least two ranks, alone or before one or two axes within the stages."""
    places.require_several("pipelines", max_world_size)
    fitting = [
        (
            weight,
            places.meshes(axes=axes, max_world_size=max_world_size).filter(lambda mesh: mesh.shape[0] > 1),
        )
        for weight, axes in AXES
        if max_world_size >= 2 ** min(len(axes), 2)
    ]
    return mixed(*fitting)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Mostly ordinary. In exact cases no order of the microbatches may change a bit; nothing is learnable."""
    return weighted((4, "ordinary"), (1, "exact")) if training.fits_exact(mesh) else st.just("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Models that have a layer with parameters for every rank of `pp`, and nothing that two layers share."""
    unit = mesh.shape[-1] if mesh.names[-1] == "tp" else 1
    return _models(ranks=mesh.shape[0], unit=unit, exact=purpose == "exact")


@functools.cache
@st.composite
def _models(draw: st.DrawFn, *, ranks: int, unit: int, exact: bool) -> Model:
    kinds = (
        ((1, shapes.exact_models()),)
        if exact
        else (
            (3, shapes.vector_models(unit=unit)),
            (2, shapes.sequence_models(unit=unit)),
            (2, shapes.token_models(unit=unit)),
        )
    )
    model = draw(mixed(*kinds))
    alone: Layers = tuple(layer for layer in model.layers if _stands_alone(layer))
    layers: Layers = alone if any(map(_has_parameters, alone)) else (Linear(inputs=4, outputs=4),)
    last = Model(layers=layers, sequence=model.sequence).outputs
    wanted = draw(st.integers(ranks, max(ranks, min(MOST_LAYERS, 3 * ranks))))
    having = sum(map(_has_parameters, layers))
    while having < (ranks if exact else wanted):
        layers += (Linear(inputs=last, outputs=last, bias=draw(st.booleans())),)
        if not exact and draw(sometimes(one_in=3)):
            layers += (Activation(function="tanh"),)
        having += 1
    return Model(layers=layers, sequence=model.sequence)


def _has_parameters(layer: Layer) -> bool:
    return any(one.shapes() for _, one in walk((layer,)))


def _stands_alone(layer: Layer) -> bool:
    """Whether a layer shares nothing with another, nor reads anything but its input."""
    inner = [one for _, one in walk((layer,))]
    return not any(
        one.borrows() or one.reads_mask or one.reads_segments or one.mixes_rows or not one.DTENSOR_RULE
        for one in inner
    )


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Each axis within a stage as in its own path; over `pp` everything counts as replicated."""
    batch: list[Placement] = [Shard(0) if name.startswith("dp") else Replicate() for name in mesh.names]
    by_axis: list[ByParameter] = [
        places.same(model, Shard(0) if name == "dp_shard" else Replicate()) for name in mesh.names
    ]
    if mesh.names[-1] == "tp":
        by_axis[-1] = draw(places.megatron_placements(model=model, size=mesh.shape[-1]))
    return places.zipped(mesh=mesh, batch=batch, parameters=by_axis)


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With stages, microbatches that have rows on every rank, and often layers that are not trained."""
    case = msgspec.structs.replace(
        case,
        replication=Replication(),
        start=Start(),
        training=msgspec.structs.replace(case.training, checkpointing=False),
    )
    exact = case.data.regime == "exact"
    ranks, layers = case.layout.mesh.shape[0], len(case.model.layers)
    pipeline = draw(_pipelines(case=case, ranks=ranks, layers=layers, exact=exact))
    rows = draw(_rows(case=case, pipeline=pipeline, exact=exact)) * case.training.accumulation
    case = msgspec.structs.replace(
        case, pipeline=pipeline, data=msgspec.structs.replace(case.data, batch=rows)
    )
    fitting = [name for name in FEATURES if not exact and training_features.fits(name, case)]
    if bool(fitting) and draw(sometimes(one_in=3)):
        feature = training_features.drawn(draw, draw(st.sampled_from(fitting)), case)
        case = msgspec.structs.replace(case, features=(feature,))
    plain = not exact and not case.training_features and training_features.fits("own_function", case)
    if plain and draw(sometimes(one_in=4)):
        feature = training_features.drawn(draw, "own_function", case)
        case = msgspec.structs.replace(case, features=(feature,))
    if not exact and draw(sometimes(one_in=2)):
        case = msgspec.structs.replace(case, model=draw(shapes.repeated(model=case.model)))
    case = _hybrid(case) if draw(sometimes(one_in=3)) else case
    plain = not exact and not case.training_features and training_features.fits("input_hooks", case)
    if plain and draw(sometimes(one_in=6)):
        feature = training_features.drawn(draw, "input_hooks", case)
        case = msgspec.structs.replace(case, features=(feature,))
    case = draw(_evaluated(case=case)) if draw(sometimes(one_in=20)) else case
    if not exact and draw(sometimes(one_in=5)):
        case = _with(case, beside=draw(weighted(*BESIDE)))
    turned = pipeline.can_turn and bool(case.model.sequence) and draw(sometimes(one_in=8))
    case = _with(case, rows_second=True) if turned else case
    named = pipeline.hands == "tensor" and not turned and draw(sometimes(one_in=16))
    return _with(case, hands="named") if named else case


@st.composite
def _evaluated(draw: st.DrawFn, *, case: Case) -> Case:
    """With evaluations ahead of steps; ahead of the first one torch 2.9 cannot train afterwards."""
    return _with(case, evaluated=draw(weighted((1, "first"), (2, "later"))))


def _with(case: Case, **options: Any) -> Case:  # noqa: ANN401  fields of `Pipeline`
    assert case.staged  # noqa: S101  every case of this path has stages
    return msgspec.structs.replace(case, pipeline=msgspec.structs.replace(case.staged, **options))


def _hybrid(case: Case) -> Case:
    """As many ranks, of which two replicate where shards are over an even number; otherwise the same."""
    mesh = case.layout.mesh
    sizes = dict(mesh.axes)
    if sizes.get(SHARDED, 1) % 2 or len(sizes) >= MOST_AXES:
        return case
    at = mesh.names.index(SHARDED)
    halves = ((REPLICATED, 2), (SHARDED, sizes[SHARDED] // 2))
    layout = Layout(
        mesh=Mesh((*mesh.axes[:at], *halves, *mesh.axes[at + 1 :])),
        batch=(*case.layout.batch[:at], case.layout.batch[at], *case.layout.batch[at:]),
        parameters={
            name: (*placements[:at], Replicate(), *placements[at:])
            for name, placements in case.layout.parameters.items()
        },
    )
    return msgspec.structs.replace(case, layout=layout)


@st.composite
def _pipelines(draw: st.DrawFn, *, case: Case, ranks: int, layers: int, exact: bool) -> Pipeline:
    fitting = [(weight, name) for weight, name in SCHEDULES if name in SINGLE or layers >= 2 * ranks]
    schedule = draw(weighted(*fitting))
    if schedule in SINGLE:
        stages = ranks
    elif schedule in FOLDED:
        stages = 2 * ranks
    else:
        stages = ranks * draw(st.integers(2, min(MOST_ROUNDS, layers // ranks)))
    rounds = draw(equally(1, 2)) if exact else draw(weighted((2, 1), (3, 2), (1, 3)))
    least = ranks if schedule not in {"DualPipeV", *SINGLE} else stages
    microbatches = least * rounds
    if schedule not in SINGLE and schedule not in FOLDED and draw(sometimes(one_in=FEW)):
        microbatches = draw(st.integers(1, max(1, ranks - 1)))
    if exact:
        microbatches = 1 << (microbatches - 1).bit_length()
    return Pipeline(
        schedule=schedule,
        cuts=draw(_cuts(case=case, schedule=schedule, stages=stages, ranks=ranks)),
        microbatches=microbatches,
        hands=draw(weighted(*(one for one in HANDED if not (case.model.tokens and one[1] in OF_NUMBERS)))),
        scaled=draw(st.booleans()),
    )


@st.composite
def _cuts(draw: st.DrawFn, *, case: Case, schedule: Schedule, stages: int, ranks: int) -> tuple[int, ...]:
    """Where stages begin: anywhere, if every rank then has a parameter; otherwise as evenly as can be."""
    layers = len(case.model.layers)
    drawn = tuple(sorted(draw(st.permutations(range(1, layers)))[: stages - 1]))
    having = [index for index, layer in enumerate(case.model.layers) if _has_parameters(layer)]
    pipeline = Pipeline(schedule=schedule, cuts=drawn)
    if len(pipeline.ranks_with(having, layers, ranks)) == ranks:
        return drawn
    firsts = [having[len(having) * at // ranks] for at in range(1, ranks)]
    others = [index for index in range(1, layers) if index not in firsts]
    return tuple(sorted([*firsts, *others[: stages - ranks]]))


@st.composite
def _rows(draw: st.DrawFn, *, case: Case, pipeline: Pipeline, exact: bool) -> int:
    """The rows of a part: as many in each microbatch of each rank, seldom a few more, which is uneven."""
    unit = pipeline.microbatches * case.layout.data_ranks
    if exact:
        return unit * max(1, 4 // unit)
    rows = unit * draw(equally(1, 2, 3) if unit * 3 <= training.MOST_ROWS else st.just(1))
    uneven = pipeline.microbatches > 1 and draw(sometimes(one_in=12))
    return rows + draw(st.integers(1, pipeline.microbatches - 1)) * case.layout.data_ranks if uneven else rows
