"""Buffers, such as running statistics, agree with the oracle's after every step, and the state_dict has them.

What the forward of a module writes into a buffer reaches no output before the module is evaluated, so that no
other check would report it.
"""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.mismatches import mismatches
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

ORDER = 4
TRAITS = Traits(places=lambda case: ((Stage.UPDATE, name) for name in case.model.statistics()))
"""It names no number of the run alone: an entry of the wrong name or dtype counts whatever the values are."""


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each buffer beyond rounding, and one for each wrong entry of the `state_dict`."""
    buffers = run.case.model.statistics()
    yield from mismatches(run, "buffers", Stage.UPDATE, lambda name: name in buffers)
    if buffers and not isinstance(run.actual, Failure):
        yield from _entries(run, len(run.actual.steps) - 1)


def _entries(run: MeasuredRun, step: int) -> Iterator[Divergence]:
    """What differs in the keys and dtypes, after the last step."""
    expected, actual = run.expected.events.state, run.events.state
    for name in sorted({*expected, *actual}):
        want, got = expected.get(name), actual.get(name)
        if want == got:
            continue
        nature = "missing entry" if got is None else "unexpected entry" if want is None else "dtype"
        wrong = RemarkFacts(remark=f"the state_dict has {got or 'no such entry'}, expected {want or 'none'}")
        yield run.tensor_divergence(
            "buffers", Symptom.MISMATCH, (step, Stage.UPDATE, name), wrong, nature=nature
        )
