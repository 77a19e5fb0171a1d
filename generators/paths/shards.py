"""Further options of `fully_shard`: what is gathered ahead, kept, ignored, or waited for; Muon.

As the path `wrappers`, whose cases are what they were because these are drawn here alone.
"""

import functools

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases import gathered
from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Replicate
from difftest.cases.wrapping import Sharding
from generators import features as training_features
from generators import layouts as places
from generators.chances import equally, mixed, weighted
from generators.paths import drawn_alone, wrappers

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
purposes = wrappers.purposes
models = wrappers.models
layouts = wrappers.layouts

AXES = ((4, ("dp_shard",)), (3, ("dp_replicate", "dp_shard")), (1, ("dp_shard", "tp")))

OPTIONS = (
    (5, "prefetched"),
    (3, "kept_between"),
    (12, "embeddings_resting"),
    (3, "ignored"),
    (1, "by_older_name"),
)
"""The options that only this path draws, with their weights."""

FEATURES = ("muon", "optimizer_event", "schedule", "weight_decay")
"""The features that its cases may have."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """An axis to shard over, with one to replicate over, or `tp`, or alone."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With one of the options, another of `wrappers` in every third case, and mostly a feature."""
    exact = case.data.regime == "exact"
    option = draw(weighted(*(one for one in OPTIONS if _has_effect(one[1], case))))
    if option == "kept_between" and not exact and case.training.accumulation == 1:
        case = wrappers.in_two_parts(case)
    base = draw(mixed((2, st.just(Sharding())), (1, wrappers.shardings(case=case))))
    case = _with(draw, case, base, option)
    fitting = [name for name in FEATURES if training_features.fits(name, case)]
    if exact or not fitting or not draw(weighted((2, True), (1, False))):
        return case if exact else draw(_scaled(case=case))
    feature = training_features.drawn(draw, draw(st.sampled_from(fitting)), case)
    return msgspec.structs.replace(case, features=(feature,))


@st.composite
def _scaled(draw: st.DrawFn, *, case: Case) -> Case:
    """A gradient scaler beside an ignored parameter, which is no DTensor as the others are."""
    if case.sharded_by.ignored is None or not training_features.fits("gradient_scaler", case):
        return case
    return msgspec.structs.replace(case, features=(training_features.drawn(draw, "gradient_scaler", case),))


def _has_effect(option: str, case: Case) -> bool:
    """Whether the layers of a case, each gathered by itself, are such as the option is about."""
    apart = msgspec.structs.replace(
        case, sharding=Sharding(wrapped="layers", prefetched="forward", embeddings_resting=True)
    )
    of_layers = {"prefetched": gathered.prefetched, "embeddings_resting": gathered.resting}
    return option not in of_layers or bool(of_layers[option](apart))


def _with(draw: st.DrawFn, given: Case, base: Sharding, option: str) -> Case:
    """The case with one option that is not at its default, and what that needs."""
    match option:
        case "prefetched":
            ahead = draw(equally("forward", "backward", "both"))
            base = msgspec.structs.replace(base, prefetched=ahead, wrapped="layers")
        case "kept_between":
            base = msgspec.structs.replace(base, kept_between=True)
        case "embeddings_resting":
            base = msgspec.structs.replace(base, embeddings_resting=True, wrapped="layers")
        case "by_older_name":
            base = msgspec.structs.replace(
                base, by_older_name=True, gradient_divide_factor=draw(equally(1.0, 2.0, 8.0)), summed=True
            )
        case _:
            return _ignoring(draw, given, base)
    return msgspec.structs.replace(given, sharding=base)


def _ignoring(draw: st.DrawFn, case: Case, base: Sharding) -> Case:
    """A parameter that the wrapper ignores is whole on every rank. Gradients are not clipped beside it."""
    name = draw(st.sampled_from(sorted(case.layout.parameters)))
    whole = (Replicate(),) * len(case.layout.mesh.axes)
    layout = msgspec.structs.replace(case.layout, parameters={**case.layout.parameters, name: whole})
    training = msgspec.structs.replace(case.training, clip_norm=None)
    sharding = msgspec.structs.replace(base, ignored=name, offload=False)
    return msgspec.structs.replace(case, layout=layout, training=training, sharding=sharding)
