"""One model on a few plain layouts of two ranks, each beside the float64 reference, without a cluster.

What differs is believed as in a campaign: beside a reference that knows its rounding noise better. This is
what a team's own test asks (`difftest.pytest_plugin`), and how difftest is measured on models that it did not
make (`tools/real_models.py`).
"""

from collections.abc import Iterator
from functools import lru_cache, partial

import msgspec

from difftest.campaign.campaign import ORACLE
from difftest.campaign.confirmation import Samples, confirmed
from difftest.cases.case import Case, Training
from difftest.cases.described import Description
from difftest.findings.ledger import Entry, read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.ground.errors import UsageError
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome

RANKS, ROWS, TRIES = 2, 4, 100


def compared(
    source: str, layouts: tuple[str, ...], *, steps: int, dtype: str = "float32"
) -> Iterator[tuple[str, Comparison, Entry | None]]:
    """Every layout with what the comparison gave, and the ledger's entry for it where it has one.

    A layout that is not supported is inconclusive, with the reason.

    `UsageError` for a layout that there is none of, and for a source that is no model that can be compared.
    """
    from workers.isolate.described import described
    from workers.plain_layouts import LAYOUTS

    plugins.require("layouts", layouts, LAYOUTS)
    if not layouts:
        msg = f"no layouts; allowed: 1 or more of {', '.join(LAYOUTS)}"
        raise UsageError(msg)
    description = described(source, ())
    if dtype not in description.dtypes:
        reason = description.refused.get(dtype, f"allowed: {', '.join(description.dtypes)}")
        msg = f"{source} in {dtype}: {reason}"
        raise UsageError(msg)
    for layout in layouts:
        path, backend = LAYOUTS[layout]
        case = plain_case(description, path, steps, dtype, backend)
        shown = comparison(case, backend)
        yield layout, shown, entry(shown, case)


def comparison(case: Case, backend: str) -> Comparison:
    """The comparison of a case's run on a backend with the oracle's, confirmed as in a campaign."""
    from workers import backends
    from workers.isolate import sandbox

    if reason := backends.load(backend).unsupported(case):
        return Comparison(verdict="inconclusive", reason=reason, reason_kind=reason)
    text, side = case.to_json(), backends.load(backend).SIDE
    expected, actual = expected_outcome(text), sandbox.run(case, backend)

    def compared_with(truth: Outcome) -> Comparison:
        return compare(case, backend, side, truth, actual)

    def is_known(shown: Comparison) -> bool:
        return entry(shown, case) is not None

    return confirmed(compared_with, expected, partial(expected_outcome, text), is_known)


def entry(comparison: Comparison, case: Case) -> Entry | None:
    """The entry of the ledger for what a run showed first; None where it has none, or nothing differs."""
    if not comparison.divergences:
        return None
    return read_ledger().entry(comparison.divergences[0], case, utc_today())


@lru_cache(maxsize=4)
def expected_outcome(case: bytes, samples: Samples | None = None) -> Outcome:
    """The oracle's outcome, which layouts of the same case share; None for the usual samples."""
    from workers.isolate import sandbox

    return sandbox.run(Case.from_json(case), ORACLE, options=samples.options if samples else {})


def plain_case(description: Description, path: str, steps: int, dtype: str, backend: str) -> Case:
    """The first case of a path over two ranks that a backend supports, or else the first.

    With SGD, in one part, and without options. `UsageError` where none is drawn.
    """
    from generators import own
    from workers import backends

    drawn = (
        own.case_at(description, 0, number, wanted=(path,), max_world_size=RANKS) for number in range(TRIES)
    )
    training = Training(
        optimizer="own" if description.optimizer else "sgd",
        steps=min(steps, description.most_steps),
        loss=description.loss,
    )
    first = None
    for case in drawn:
        if case.dtype == dtype and case.world_size == RANKS:
            data = msgspec.structs.replace(case.data, batch=ROWS)
            plain = msgspec.structs.replace(case, training=training, data=data, features=msgspec.UNSET)
            first = first or plain
            if not backends.load(backend).unsupported(plain):
                return plain
    if first:
        return first
    msg = f"no layout over {RANKS} ranks among {TRIES} cases of {path} in {dtype}"
    raise UsageError(msg)
