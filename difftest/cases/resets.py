"""A case with one option back at its default, to see which of them decides, and with all of them so."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from difftest.cases.case import Case, Data, Training
from difftest.cases.layer import Layer
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.options import field_resets

CLIPPING = "training.clipping"
STRIDES = "collective.memory=strided"
REPEATED = "block.times"
EPSILON = "norm.epsilon"

HARDLY_ANY = 2.0**-100
"""An epsilon that adds nothing to a mean square but where it is 0."""

PLAIN_STEPS = 2
"""One more than shows whether anything was trained: a run may end after its first."""


def option_resets(case: Case) -> Iterator[tuple[str, Case]]:
    """Every option not at its default, and the case with only that one reset.

    The names are such as `replication.own_weights=True`.
    """
    for name, fields in option_changes(case):
        yield name, replace(case, **fields)


def option_changes(case: Case) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every option not at its default, and the fields of the case with only that one reset."""
    of_some_backends = {"replication": case.replication, "start": case.start, **case.wrapping}
    for what, options in of_some_backends.items():
        for name, reset in field_resets(options):
            yield f"{what}.{name}", {what: reset}
    for name, spelling in field_resets(case.forms):
        yield f"spelling.{name}", {"spelling": spelling}
    if pipeline := case.staged:
        for name, fields in pipeline.settings():
            yield f"pipeline.{name}", {"pipeline": replace(pipeline, **fields)}
    for feature in case.training_features:
        others = tuple(one for one in case.training_features if one != feature)
        yield f"feature.{feature.name}", {"features": others}
    if case.sdpa is not msgspec.UNSET:
        yield f"sdpa={case.sdpa}", {"sdpa": msgspec.UNSET}


def form_resets(case: Case) -> Iterator[tuple[str, Case]]:
    """Every usual form that the case takes, such as `spelling.unequal=True`, and the case without it."""
    for name, spelling in field_resets(case.forms):
        yield f"spelling.{name}", replace(case, spelling=spelling)


def resets(case: Case) -> Iterator[tuple[str, Case]]:
    """Every option that is not at its default, as `option_resets` names it, and the case without it.

    Clipping is one of them, and so are the strides of what a collective is given, and that a block is applied
    several times.
    """
    yield from option_resets(case)
    if case.training.clip_norm is not None:
        yield CLIPPING, case.changed("training", clip_norm=None)
    once = _with_layers(case, lambda layer: replace(layer, times=1) if isinstance(layer, Residual) else layer)
    if once != case:
        yield REPEATED, once
    first = case.model.layers[0] if case.model.layers else None
    if isinstance(first, Collective) and first.memory is not msgspec.UNSET:
        layers = (replace(first, memory=msgspec.UNSET), *case.model.layers[1:])
        yield STRIDES, case.changed("model", layers=layers)


def deciding(case: Case) -> Iterator[tuple[str, Case]]:
    """What may decide that numbers are wrong, and the case without it: options, and the epsilon of norms."""
    yield from resets(case)
    without = _with_layers(
        case, lambda layer: replace(layer, epsilon=HARDLY_ANY) if isinstance(layer, RMSNorm) else layer
    )
    if without != case:
        yield EPSILON, without


def _with_layers(case: Case, changed: Callable[[Layer], Layer]) -> Case:
    """The case with each of its layers `changed`, those in blocks too."""

    def everywhere(layer: Layer) -> Layer:
        own = changed(layer)
        return own.holding(tuple(map(everywhere, own.held))) if own.held else own

    return case.changed("model", layers=tuple(map(everywhere, case.model.layers)))


def plain(case: Case) -> Case:
    """The case in the form in which a backend should agree if it works at all.

    No option is off its default, and there are `PLAIN_STEPS` of plain numbers in float32, one of what has no
    optimizer. Model and layout stay, but for the strides of what a collective is given and for blocks that
    are applied several times.
    """
    while reset := next(resets(case), None):
        case = reset[1]
    loss, optimizer = case.training.loss, case.training.optimizer
    kept = optimizer if optimizer in {"none", "own"} else "sgd"
    training = Training(loss=loss, optimizer=kept, steps=1 if kept == "none" else PLAIN_STEPS)
    return replace(case, training=training, data=Data(batch=case.data.batch), dtype="float32")
