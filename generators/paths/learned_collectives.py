"""Collectives behind a layer that learns through them: gradients take the way back over the ranks.

Its meshes, purposes and layouts are those of the path `collectives`.
"""

import functools
from typing import TYPE_CHECKING

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from generators.chances import sometimes
from generators.layers.collective import learned
from generators.models import Purpose
from generators.paths import collectives, drawn_alone

if TYPE_CHECKING:
    from difftest.cases.layer import Layer

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone
meshes = collectives.meshes
purposes = collectives.purposes
layouts = collectives.layouts


@functools.cache
@st.composite
def models(draw: st.DrawFn, *, mesh: Mesh, purpose: Purpose) -> Model:
    """A Linear layer, the collective, and another Linear layer."""
    exact = purpose == "exact"
    between = draw(learned(mesh=mesh, exact=exact))
    layers: list[Layer] = [
        Linear(inputs=draw(st.sampled_from((2, 3))), outputs=between.width, bias=draw(st.booleans())),
        between,
        Linear(inputs=between.outputs, outputs=draw(st.sampled_from((4, 1, 2))), bias=draw(st.booleans())),
    ]
    if not exact and draw(st.booleans()):
        layers.insert(1, Activation(function="tanh"))
    return Model(layers=tuple(layers))


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """Sometimes a mean in place of a sum, one rank that gathers, or plain names; with `usual_numbers`."""
    exact = case.data.regime == "exact"
    layers = [
        draw(_varied(layer=layer, exact=exact)) if isinstance(layer, Collective) else layer
        for layer in case.model.layers
    ]
    case = draw(usual_numbers(case=case.changed("model", layers=tuple(layers))))
    return _by_plain_names(case) if draw(sometimes(one_in=4)) else case


def _by_plain_names(case: Case) -> Case:
    """Functional collectives by their names without `_autograd`."""
    layers = tuple(
        msgspec.structs.replace(layer, learned="plain")
        if isinstance(layer, Collective) and layer.learned == "functional"
        else layer
        for layer in case.model.layers
    )
    return case.changed("model", layers=layers)


def usual_numbers(*, case: Case) -> SearchStrategy[Case]:
    """Usual numbers of float32 where the greatest or the least is taken, so that no two ranks have it."""
    collected = (layer for layer in case.model.layers if isinstance(layer, Collective))
    if all(layer.reduction in {"sum", "avg"} for layer in collected):
        return st.just(case)
    data = msgspec.structs.replace(case.data, regime="normal")
    return st.just(msgspec.structs.replace(case, data=data, dtype="float32"))


@st.composite
def _varied(draw: st.DrawFn, *, layer: Collective, exact: bool) -> Collective:
    """Half of what gathers or sums up: one rank gathers, by `nn`, or a mean is there, which rounds."""
    if not draw(st.booleans()):
        return layer
    if layer.operation == "all_gather":
        return msgspec.structs.replace(layer, operation="gather", learned="nn")
    adds = layer.operation in {"reduce", "all_reduce"} and layer.reduction == "sum"
    return msgspec.structs.replace(layer, reduction="avg") if adds and not exact else layer
