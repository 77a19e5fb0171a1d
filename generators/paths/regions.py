"""Tensor parallelism as trainers use it: activations cut along the sequence, and the loss of cut classes.

Its models have layers alone that such styles take, and mostly a last Linear layer that is split by columns.
"""

import functools

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.wrapping import LossForm, Regions
from generators import features as training_features
from generators import layouts as places
from generators import models as shapes
from generators.chances import always, equally, mixed, sometimes, weighted
from generators.models import Purpose
from generators.paths import data_tensor, drawn_alone, tensor_parallel
from generators.sizes import vocabularies
from generators.training import ignored_shares

DEFAULT = False
IN_BLOCKS = False
HAS_FEATURES = False
TAKES_ANY_MODEL = False

scheduled = drawn_alone

AXES = (
    (6, ("tp",)),
    (3, ("dp", "tp")),
    (3, ("dp_shard", "tp")),
    (1, ("dp_replicate", "dp_shard", "tp")),
)
FORMS: tuple[LossForm, ...] = ("rows", "positions", "images", "log_softmax", "nll_loss")
MOST_SEQUENCE = 12


@functools.cache
def meshes(*, max_world_size: int) -> SearchStrategy[Mesh]:
    """`tp`, alone or behind data axes."""
    choices = ((weight, places.meshes(axes=axes, max_world_size=max_world_size)) for weight, axes in AXES)
    return mixed(*choices)


def purposes(*, mesh: Mesh) -> SearchStrategy[Purpose]:  # noqa: ARG001  any mesh will do
    """Ordinary: a loss of classes rounds."""
    return always("ordinary")


def models(*, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:  # noqa: ARG001  one purpose
    """Models whose last layer has classes, the number of which `tp` need not divide."""
    return _models(unit=mesh.shape[-1])


@functools.cache
@st.composite
def _models(draw: st.DrawFn, *, unit: int) -> Model:
    model = draw(mixed((1, shapes.vector_models(unit=unit)), (4, shapes.token_models(unit=unit))))
    layers = tuple(layer for layer in model.layers if not _convolves(layer))
    sequence = unit * draw(st.integers(1, MOST_SEQUENCE // unit)) if model.sequence else 0
    model = Model(layers=layers, sequence=sequence)
    if not draw(weighted((5, True), (1, False))):
        return model
    classes = draw(mixed((2, vocabularies(unit=unit)), (1, st.integers(3, 9))))
    head = Linear(inputs=model.outputs, outputs=classes, bias=draw(st.booleans()))
    last = model.layers[-1]
    if isinstance(last, Linear) and len(model.layers) > 1:
        head = msgspec.structs.replace(head, inputs=last.inputs)
        return Model(layers=(*model.layers[:-1], head), sequence=model.sequence)
    return Model(layers=(*model.layers, head), sequence=model.sequence)


def _convolves(layer: Layer) -> bool:
    """Whether a layer is a convolution, or has one; each keeps the width, so that a model can do without."""
    return any(not inner.DTENSOR_RULE for _, inner in walk((layer,)))


@st.composite
def layouts(draw: st.DrawFn, *, model: Model, mesh: Mesh) -> Layout:
    """Those of the paths of these meshes, all sharded over `dp_shard`.

    The last layer is split by columns where it is a Linear one.
    """
    path = data_tensor if len(mesh.axes) > 1 else tensor_parallel
    layout = draw(path.layouts(model=model, mesh=mesh))
    last, at = model.layers[-1], len(model.layers) - 1
    columns = (
        {f"{at}.{name}" for name in last.shapes()} if isinstance(last, Linear) and not last.tied else set()
    )
    over_data = tuple(Shard(0) if name == "dp_shard" else Replicate() for name in mesh.names[:-1])
    parameters = {
        name: (*over_data, Shard(0) if name in columns else placements[-1])
        for name, placements in layout.parameters.items()
    }
    return Layout(mesh=mesh, batch=layout.batch, parameters=parameters)


@st.composite
def completed(draw: st.DrawFn, *, case: Case) -> Case:
    """Cut along the sequence where its layers allow that, with a loss of cut classes, or mostly both."""
    classes = case.model.outputs > 1 and draw(weighted((4, True), (1, False)))
    if classes:
        targets = case.data.batch * max(1, case.model.sequence)
        ignored = draw(ignored_shares(loss="cross_entropy", targets=targets))
        case = msgspec.structs.replace(
            case,
            training=msgspec.structs.replace(case.training, loss="cross_entropy"),
            data=msgspec.structs.replace(case.data, ignored=ignored),
        )
    classes = case.training.loss == "cross_entropy"
    fits = case.model.sequence and all(layer.TAKES_PIECES for _, layer in walk(case.model.layers))
    sequence = bool(fits) and draw(weighted((3, True), (1, False)))
    form: LossForm = draw(equally(*FORMS))
    apart = classes and (not sequence or not draw(sometimes(one_in=3)))
    regions = Regions(
        sequence=sequence,
        prepared=sequence and draw(st.booleans()),
        loss=form if apart else "whole",
        mean=apart and draw(st.booleans()),
        weighted=classes and draw(sometimes(one_in=4)),
    )
    start = msgspec.structs.replace(case.start, accumulation="loop")  # a scan traces a layer apart
    case = msgspec.structs.replace(case, regions=regions, start=start)
    return draw(_mixed(case=case)) if not apart and "dp_shard" in case.layout.mesh.names else case


@st.composite
def _mixed(draw: st.DrawFn, *, case: Case) -> Case:
    """Often with FSDP's mixed precision, as trainers have it beside tensor parallelism."""
    if not training_features.fits("mixed_precision", case) or not draw(weighted((2, True), (1, False))):
        return case
    return msgspec.structs.replace(case, features=(training_features.drawn(draw, "mixed_precision", case),))
