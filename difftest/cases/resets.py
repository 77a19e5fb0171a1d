"""A case with one option back at its default: what is asked of each, to see which of them decides."""

from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case

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
