"""A case with one option back at its default, to see which of them decides, and with all of them so."""

from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case, Data, Training

CLIPPING = "training.clipping"


def resets(case: Case) -> Iterator[tuple[str, Case]]:
    """Every option that is not at its default, as `Case.option_resets` names it, and the case without it.

    Clipping is one of them.
    """
    yield from case.option_resets()
    if case.training.clip_norm is not None:
        yield (
            CLIPPING,
            msgspec.structs.replace(case, training=msgspec.structs.replace(case.training, clip_norm=None)),
        )


def plain(case: Case) -> Case:
    """The case in the form in which a backend should agree if it works at all.

    No option is off its default, and there is one step of plain numbers in float32. Model and layout stay.
    """
    while reset := next(resets(case), None):
        case = reset[1]
    loss, optimizer = case.training.loss, case.training.optimizer
    kept = optimizer if optimizer in {"none", "own"} else "sgd"
    return msgspec.structs.replace(
        case, training=Training(loss=loss, optimizer=kept), data=Data(batch=case.data.batch), dtype="float32"
    )
