"""State over time: a checkpoint in the middle of a run goes through another layout, format or form.

Any model, replicated, sharded, or with `tp` behind data axes. Only this path draws most of the features that
read and load a state.
"""

import functools
import math

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.conv import Conv
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from generators import features as training_features
from generators import layouts as places
from generators.chances import always, mixed, sometimes
from generators.models import Purpose
from generators.paths import drawn_alone, wrappers

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = True

scheduled = drawn_alone
layouts = wrappers.layouts

AXES = (
    (2, ("dp",)),
    (4, ("dp_shard",)),
    (2, ("dp_replicate", "dp_shard")),
    (2, ("dp_shard", "tp")),
)

OFTEN = ((4, "moved_checkpoint"), (2, "state_dict_options"))
"""The features of state, with their weights."""

BESIDE = ("implementation", "amsgrad", "schedule", "weight_decay", "frozen", "mixed_precision")
"""The features that one of them may have beside it."""


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """Data axes, and `tp` behind one."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
    """As of `wrappers`, but with few convolutions, which DTensor has no rule for: they end a run at once."""
    whole = wrappers.models(mesh=mesh, purpose=purpose)
    return mixed((1, whole), (4, whole.filter(_is_without_convolutions)))


def _is_without_convolutions(model: Model) -> bool:
    return not any(isinstance(layer, Conv) for _, layer in walk(model.layers))


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Neither exact nor learnable: features round, and are for few steps."""
    return always("ordinary")


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With a feature of state, and in every second case another that fits beside it.

    Four of five cases are such that known faults of DTensor do not end the run ahead of the checkpoint.
    """
    if not draw(sometimes(one_in=5)):
        case = _even_and_unclipped(case)
    if case.training.steps == 1:
        case = case.changed("training", steps=2)
    return draw(training_features.with_features(case=case, often=OFTEN, beside=BESIDE))


def _even_and_unclipped(case: Case) -> Case:
    """With as many rows on every rank, and gradients as they are."""
    rows = math.ceil(case.part_rows / case.layout.data_ranks) * case.layout.data_ranks
    data = msgspec.structs.replace(case.data, batch=rows * case.training.accumulation)
    training = msgspec.structs.replace(case.training, clip_norm=None)
    return msgspec.structs.replace(case, data=data, training=training)
