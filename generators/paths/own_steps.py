"""Training steps that people write themselves: penalties on slopes, hooks, metrics, changes in place.

Or loops around them: schedulers of several parts, who sets gradients to zero and when, norms to clip by,
and a step that is tried again behind an exception.
Any model whose inputs are mostly numbers, replicated, sharded, or with `tp`. Only this path draws these
features.
"""

import functools
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.layers import walk
from difftest.cases.layout import Layout, Mesh
from difftest.cases.model import Model
from difftest.cases.options import Replication
from difftest.cases.wrapping import Regions, Sharding
from generators import features as training_features
from generators import layouts as places
from generators import models as shapes
from generators.chances import always, mixed, sometimes
from generators.models import Purpose
from generators.paths import drawn_alone, tensor_parallel, wrappers

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone

AXES = (
    (3, ("dp",)),
    (4, ("dp_shard",)),
    (2, ("dp_replicate", "dp_shard")),
    (3, ("tp",)),
    (1, ("dp", "tp")),
    (1, ("dp_shard", "tp")),
)
SHARDED, TENSOR = "dp_shard", "tp"

OFTEN = (
    (6, "gradient_penalty"),
    (4, "forward_derivative"),
    (3, "parameter_hooks"),
    (6, "added_in_place"),
    (2, "empty_group"),
    (2, "evaluated_before_update"),
)
"""The features of such steps, with their weights."""

DERIVATIVES = ("gradient_penalty", "forward_derivative")
"""Those that have a derivative in the loss."""

BESIDE = ("gradient_penalty", "parameter_hooks", "schedule", "weight_decay", "implementation", "amsgrad")
"""The features that one of them may have beside it."""

OF_LOOPS = (
    (2, "schedule"),
    (2, "zeroed_gradients"),
    (1, "clip_by_infinity_norm"),
    (1, "optimizer"),
    (3, "retried"),
)
BESIDE_LOOPS = ("tensor_rate", "schedule")
"""The features of the loop around the steps, which one of three cases has in their place."""

IN_PLACE = ((1, "changed_in_place"),)
BESIDE_IN_PLACE = ("gradient_penalty", "schedule", "weight_decay", "implementation")
"""What one of eleven cases has in the place of either."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Data axes, `tp`, or one of each."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Neither exact nor learnable: features round, and are for few steps."""
    return always("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  one purpose
    """Mostly of vectors, often in sequences, and seldom of token ids, which have no slope."""
    unit = mesh.shape[-1] if mesh.names[-1] == TENSOR else 1
    kinds = shapes.vector_models(unit=unit), shapes.sequence_models(unit=unit), shapes.token_models(unit=unit)
    plain = kinds[1].filter(_is_without_convolutions)
    return mixed((4, kinds[0]), (3, plain), (1, kinds[1]), (1, kinds[2]))


def _is_without_convolutions(model: Model) -> bool:
    """Whether DTensor has a rule for every layer; where it has none, a run ends at once."""
    return all(layer.DTENSOR_RULE for _, layer in walk(model.layers))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """As the paths of these axes have them."""
    of_path = tensor_parallel.layouts if mesh.names == (TENSOR,) else wrappers.layouts
    layout: Layout = draw(of_path(model=model, mesh=mesh))
    return layout


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With a feature of such a step, another in every second case, and what either needs."""
    loop = msgspec.structs.replace(case.start, accumulation="loop")
    norm = case.training.clip_norm if draw(sometimes(one_in=5)) else None  # of partial gradients it is wrong
    several = max(2, case.training.steps)
    once = msgspec.structs.replace(case.training, checkpointing=False, steps=several, clip_norm=norm)
    case = msgspec.structs.replace(case, start=loop, training=once)
    if TENSOR in case.layout.mesh.names:
        case = draw(_in_pieces(case=case))
    case = draw(training_features.with_features(case=case, often=OFTEN, beside=BESIDE))
    if has(case, "empty_group") and training_features.fits("state_dict_options", case):
        state = training_features.drawn(draw, "state_dict_options", case)
        if draw(st.booleans()):
            state = msgspec.structs.replace(state, options={**state.options, "form": "flattened"})
        kept = [feature for feature in case.training_features if feature.name == "empty_group"]
        case = msgspec.structs.replace(case, features=(*kept, state))
    if has(case, *DERIVATIVES) and case.layout.mesh.names == ("dp",) and draw(st.booleans()):
        case = msgspec.structs.replace(case, replication=Replication(static_graph=True))
    case = draw(_sharded(case=case)) if SHARDED in case.layout.mesh.names else case
    of_loop = training_features.with_features(case=case, often=OF_LOOPS, beside=BESIDE_LOOPS)
    case = draw(of_loop) if draw(sometimes(one_in=3)) else case
    changes = training_features.fits("changed_in_place", case) and draw(sometimes(one_in=11))
    return draw(_changing(case=case)) if changes else case


@st.composite
def _changing(draw: st.DrawFn, *, case: Case) -> Case:
    """What layers give is changed in place; those that are wrapped apart are often compiled apart too."""
    changing = training_features.with_features(case=case, often=IN_PLACE, beside=BESIDE_IN_PLACE)
    case = draw(changing)
    apart = SHARDED in case.layout.mesh.names and draw(st.booleans())
    wrapped = msgspec.structs.replace(case.sharded_by, wrapped="layers")
    return msgspec.structs.replace(case, sharding=wrapped) if apart else case


@st.composite
def _in_pieces(draw: st.DrawFn, *, case: Case) -> Case:
    """Activations cut along the sequence, in half of the cases whose layers allow that."""
    fits = case.model.sequence and all(layer.TAKES_PIECES for _, layer in walk(case.model.layers))
    if not fits or case.model.sequence % case.layout.mesh.shape[-1] or not draw(st.booleans()):
        return case
    return msgspec.structs.replace(case, regions=Regions(sequence=True, prepared=draw(st.booleans())))


@st.composite
def _sharded(draw: st.DrawFn, *, case: Case) -> Case:
    """What is differentiated twice stays gathered in half of the cases; layers are often wrapped apart."""
    changed: dict[str, Any] = {}
    if has(case, "gradient_penalty") and draw(st.booleans()):
        changed["kept_in_step"] = True
    blocks = any(layer.held is not None for layer in case.model.layers)
    if has(case, "added_in_place") or (blocks and draw(st.booleans())):
        changed["wrapped"] = "layers"
    return msgspec.structs.replace(case, sharding=Sharding(**changed))
