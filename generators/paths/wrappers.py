"""Wrappers as trainers use them: any model on data axes, with the options of `fully_shard` and of DDP.

FSDP's mixed precision and checkpoints before the first step are features of training, which it draws often.
Only this path draws any of these, so that the numbers of cases on other paths stay what they are.
"""

import functools
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.features.optimizer import FACTORED
from difftest.cases.gathered import gathered_alone, gathered_together, widened_alone
from difftest.cases.layers import walk
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.options import Feature, Replication
from difftest.cases.wrapping import Sharding
from generators import features as training_features
from generators import layouts as places
from generators import models as shapes
from generators import training
from generators.chances import equally, mixed, sometimes, weighted
from generators.layers import ByParameter
from generators.models import Purpose
from generators.paths import data_tensor, drawn_alone

if TYPE_CHECKING:
    from generators.layers import Placement

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = True

scheduled = drawn_alone

AXES = (
    (2, ("dp",)),
    (4, ("dp_shard",)),
    (4, ("dp_replicate", "dp_shard")),
    (2, ("dp_shard", "tp")),
    (1, ("dp_replicate", "dp_shard", "tp")),
)
SHARDED, TENSOR = "dp_shard", "tp"

OFTEN = (
    (6, "mixed_precision"),
    (2, "distributed_checkpoint"),
    (2, "unfreezing"),
    (8, "skipped_block"),
    (1, "kept_state_dict"),
    (3, "state_dict_options"),
)
"""The features that are drawn by themselves, with their weights."""

MOST_FEATURES = 2

FACTORS = (1.0, 2.0, 3.0, 8.0)
"""What gradients are divided by: powers of two round nothing, and 3 does not divide evenly."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """The axes that wrappers replicate and shard over, with `tp` behind them or without."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:
    """Mostly ordinary. Exact cases, in which no option may change a bit, are few; nothing is learnable."""
    return weighted((4, "ordinary"), (1, "exact")) if training.fits_exact(mesh) else st.just("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """Any model, with sizes that `tp` usually divides."""
    return shapes.models(purpose=purpose, unit=mesh.shape[-1] if mesh.names[-1] == TENSOR else 1)


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """The batch cut over every data axis; parameters over `dp_shard`, and over `tp` as in its own path."""
    if mesh.names[-1] == TENSOR:
        return draw(data_tensor.layouts(model=model, mesh=mesh))
    batch: list[Placement] = [Shard(0)] * len(mesh.axes)
    by_axis = [places.same(model, Replicate()) for _ in mesh.names]
    if SHARDED in mesh.names:
        by_axis[-1] = draw(_over_shards(model=model, ranks=mesh.shape[-1]))
    return places.zipped(mesh=mesh, batch=batch, parameters=by_axis)


@st.composite
def _over_shards(draw: st.DrawFn, *, model: Model, ranks: int) -> ByParameter:
    """Every parameter along its first dim, or seldom some along another that divides evenly."""
    placed: ByParameter = places.same(model, Shard(0))
    if not draw(sometimes(one_in=3)):
        return placed
    for name, shape in model.parameters().items():
        even = [dim for dim, size in enumerate(shape) if dim and size % ranks == 0]
        placed = {**placed, name: Shard(draw(st.sampled_from((0, *even))))}
    return placed


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With options of the wrapper and, where something may round, with features of training."""
    exact = case.data.regime == "exact"
    if not exact and case.training.accumulation == 1 and draw(st.booleans()):
        case = in_two_parts(case)
    if SHARDED in case.layout.mesh.names:
        case = msgspec.structs.replace(case, sharding=draw(shardings(case=case)))
    elif case.training.accumulation > 1 and draw(st.booleans()):
        static = Replication(static_graph=True, gradient_as_bucket_view=draw(st.booleans()))
        case = msgspec.structs.replace(case, replication=static)
    if exact:
        return case
    case = msgspec.structs.replace(case, features=draw(_features(case=case)))
    skips = has(case, "skipped_block")
    # with one group of all parameters, some of it have no gradient where a block is skipped
    case = _with_options(case, wrapped="whole") if skips and draw(st.booleans()) else case
    case = draw(_forwards_first(case=case))
    case = draw(_composed(case=case)) if SHARDED in case.layout.mesh.names else case
    again = draw(sometimes(one_in=4))
    model = draw(shapes.repeated(model=case.model)) if again else case.model
    case = msgspec.structs.replace(case, model=model)
    case = draw(_factored(case=case)) if draw(sometimes(one_in=5)) else case
    fits = not has(case, "skipped_block", "activations_on_host")
    sharded = SHARDED in case.layout.mesh.names
    case = draw(_cast_often(case=case)) if fits and sharded else case
    case = _grouped(case) if fits and sharded and draw(sometimes(one_in=4)) else case
    beside = sharded and TENSOR in case.layout.mesh.names and draw(sometimes(one_in=3))
    return _with_options(case, second_mesh=True) if beside else case


def _grouped(case: Case) -> Case:
    """With the first and the last layer in one group of FSDP's, where there is another between them."""
    groups = _with_options(case, wrapped="groups")
    apart = gathered_alone(groups) and case.sharded_by.wrapped != "ties"
    return groups if apart and gathered_together(groups) else case


@st.composite
def _cast_often(draw: st.DrawFn, *, case: Case) -> Case:
    """In three of four cases of mixed precision every layer gives float32, in as many blocks come again.

    It is in half of the cases that have no feature, too.
    """
    free = not case.training_features and training_features.fits("mixed_precision", case)
    if free and draw(st.booleans()):
        used = training_features.drawn(draw, "mixed_precision", case)
        case = msgspec.structs.replace(case, features=(used,))
    if not has(case, "mixed_precision"):
        return case
    layers = msgspec.structs.replace(
        _with_options(case, wrapped="layers"),
        features=tuple(_everywhere(one) for one in case.training_features),
    )
    often = weighted((3, True), (1, False))
    case = layers if widened_alone(layers) and draw(often) else case
    again = training.has_blocks(model=case.model) and draw(often)
    return case.changed("training", checkpointing=True) if again else case


def _everywhere(feature: Feature) -> Feature:
    """Mixed precision whose policies all have an output in float32; another feature as it is."""
    if feature.name != "mixed_precision":
        return feature
    return msgspec.structs.replace(feature, options={**feature.options, "output": "everywhere"})


@st.composite
def _factored(draw: st.DrawFn, *, case: Case) -> Case:
    """Trained by Adafactor, where there is room for the feature and numbers are far above its least."""
    fits = training_features.fits("optimizer", case) and case.data.regime == "normal"
    if not fits or has(case, "optimizer") or len(case.training_features) == MOST_FEATURES:
        return case
    drawn = training_features.drawn(draw, "optimizer", case)
    factored = Feature(name="optimizer", options={**drawn.options, "kind": FACTORED})
    return msgspec.structs.replace(case, features=(*case.training_features, factored))


@st.composite
def _forwards_first(draw: st.DrawFn, *, case: Case) -> Case:
    """Of several parts, in one of four cases, or in half of DDP's, all forward passes come first."""
    fits = training_features.fits("forwards_first", case) and len(case.training_features) < MOST_FEATURES
    seldom = 4 if SHARDED in case.layout.mesh.names else 2
    if has(case, "forwards_first") or not fits or not draw(sometimes(one_in=seldom)):
        return case
    beside = (*case.training_features, training_features.drawn(draw, "forwards_first", case))
    return msgspec.structs.replace(case, features=beside)


@st.composite
def _composed(draw: st.DrawFn, *, case: Case) -> Case:
    """The layers of a tie wrapped apart in half of the cases that have one; one mesh of six flattened."""
    tied = any(layer.borrows() for _, layer in walk(case.model.layers))
    changed: dict[str, Any] = {}
    if tied and draw(st.booleans()):
        changed["wrapped"] = "ties"
    if TENSOR not in case.layout.mesh.names and draw(sometimes(one_in=6)):
        changed["flattened"] = True
    return _with_options(case, **changed)


def _with_options(case: Case, **options: Any) -> Case:  # noqa: ANN401  fields of `Sharding`
    return msgspec.structs.replace(case, sharding=msgspec.structs.replace(case.sharded_by, **options))


def in_two_parts(case: Case) -> Case:
    """As many rows in each of two parts as there were."""
    return msgspec.structs.replace(
        case,
        training=msgspec.structs.replace(case.training, accumulation=2),
        data=msgspec.structs.replace(case.data, batch=2 * case.data.batch),
    )


@st.composite
def shardings(draw: st.DrawFn, *, case: Case) -> Sharding:
    """The options of `fully_shard`: one that is not at its default, or any of them."""
    ranks = case.layout.mesh.size(SHARDED)
    parts = [size for size in range(1, ranks + 1) if ranks % size == 0]
    every = draw(sometimes(one_in=3))
    one = draw(
        weighted(
            (4, "reshard_after_forward"),
            (2, "gradient_divide_factor"),
            (1, "summed"),
            (3, "synced"),
            (2, "wrapped"),
            (1, "offload"),
        )
    )
    drawn: dict[str, Any] = {
        "reshard_after_forward": draw(mixed((1, st.booleans()), (1, equally(*parts)))),
        "gradient_divide_factor": draw(equally(*FACTORS)),
        "summed": True,
        "synced": draw(equally("every", "scattered", "last")),
        "wrapped": draw(equally("layers", "whole", "blocks")),
        "offload": draw(sometimes(one_in=2)),
    }
    if case.data.regime == "exact" and drawn["gradient_divide_factor"] == 3.0:  # noqa: PLR2004  rounds
        drawn["gradient_divide_factor"] = 4.0
    if every:
        chosen = {name: value for name, value in drawn.items() if draw(st.booleans())}
        return Sharding(**{**chosen, "summed": "gradient_divide_factor" in chosen})
    apart = one == "gradient_divide_factor" and draw(weighted((5, True), (1, False)))
    return Sharding(**{one: drawn[one], **({"summed": True} if apart else {})})


@st.composite
def _features(draw: st.DrawFn, *, case: Case) -> tuple[Feature, ...]:
    """Mostly one or two of those that are drawn often here; otherwise any features, or none."""
    fitting = [(weight, name) for weight, name in OFTEN if training_features.fits(name, case)]
    kind = draw(weighted((9 if fitting else 1, "often"), (2, "any"), (2, "none")))
    if kind == "none":
        return ()
    if kind == "any" or not fitting:
        return draw(training_features.features(case=case))
    first = draw(weighted(*fitting))
    beside = [one for one in fitting if one[1] != first and training_features.together(first, one[1], case)]
    names = [first]
    if bool(beside) and draw(st.booleans()):
        names.append(draw(weighted(*beside)))
    return tuple(training_features.drawn(draw, name, case) for name in names)
