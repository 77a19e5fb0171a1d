"""Replicas as trainers keep them: communication hooks, local updates, uneven inputs, sharded optimizers.

Each is a feature of training that only this path draws, so that the numbers of cases on other paths stay what
they are.
"""

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from generators import features as training_features
from generators.chances import always, sometimes
from generators.models import Purpose
from generators.paths import data_parallel, drawn_alone

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = True

scheduled = drawn_alone
meshes = data_parallel.meshes
models = data_parallel.models
layouts = data_parallel.layouts

OFTEN = ((5, "communication_hook"), (5, "local_steps"), (4, "uneven_inputs"), (1, "sharded_optimizer"))
"""The features of replicas, with their weights."""

BESIDE = (
    *(name for _, name in OFTEN),
    *("averaged_weights", "implementation", "maximize", "schedule", "weight_decay", "zeroed_gradients"),
)
"""The features that one of them may have beside it."""


ALONE = "converted"
"""What DDP does not stand, so that nothing beside it would show."""


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Neither exact nor learnable: features round, and are for few steps."""
    return always("ordinary")


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """With a feature of replicas and, in every second case, another that fits beside it; or with one alone.

    In three of four cases the batch is one part of usual numbers in float32, which most of them need.
    """
    if not draw(sometimes(one_in=4)):
        case = _usual(case)
    case = draw(training_features.with_features(case=case, often=OFTEN, beside=BESIDE))
    alone = training_features.with_features(case=case, often=((1, ALONE),), beside=())
    return draw(alone) if draw(sometimes(one_in=10)) else case


def _usual(case: Case) -> Case:
    training = msgspec.structs.replace(case.training, accumulation=1, clip_norm=None)
    start = msgspec.structs.replace(case.start, accumulation="loop")
    data = msgspec.structs.replace(case.data, regime="normal")
    return msgspec.structs.replace(case, training=training, start=start, data=data, dtype="float32")
