"""Ranks added the same numbers up in other orders: each is right, and they differ in the last bits."""

from difftest.judge.damage import wrong_ranks
from difftest.judge.measured import Key, MeasuredRun


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether the piece of every rank is the oracle's to within the rounding noise."""
    truth, floors, actual = run.beside(at)
    return not wrong_ranks(truth, floors, actual, run.case.layout.mesh)
