"""A case with one option back at its default, to see which of them decides, and with all of them so."""

from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.collective import Collective

CLIPPING = "training.clipping"
STRIDES = "collective.memory=strided"

PLAIN_STEPS = 2
"""One more than shows whether anything was trained: a run may end after its first."""


def resets(case: Case) -> Iterator[tuple[str, Case]]:
    """Every option that is not at its default, as `Case.option_resets` names it, and the case without it.

    Clipping is one of them, and so are the strides of what a collective is given.
    """
    yield from case.option_resets()
    if case.training.clip_norm is not None:
        yield (
            CLIPPING,
            msgspec.structs.replace(case, training=msgspec.structs.replace(case.training, clip_norm=None)),
        )
    first = case.model.layers[0] if case.model.layers else None
    if isinstance(first, Collective) and first.memory is not msgspec.UNSET:
        layers = (msgspec.structs.replace(first, memory=msgspec.UNSET), *case.model.layers[1:])
        yield STRIDES, msgspec.structs.replace(case, model=msgspec.structs.replace(case.model, layers=layers))


def plain(case: Case) -> Case:
    """The case in the form in which a backend should agree if it works at all.

    No option is off its default, and there are `PLAIN_STEPS` of plain numbers in float32, one of what has no
    optimizer. Model and layout stay, but for the strides of what a collective is given.
    """
    while reset := next(resets(case), None):
        case = reset[1]
    loss, optimizer = case.training.loss, case.training.optimizer
    kept = optimizer if optimizer in {"none", "own"} else "sgd"
    training = Training(loss=loss, optimizer=kept, steps=1 if kept == "none" else PLAIN_STEPS)
    return msgspec.structs.replace(case, training=training, data=Data(batch=case.data.batch), dtype="float32")
