"""The same case on the same backend gives the same bits in other processes."""

from collections.abc import Iterator

import numpy as np

from difftest.cases.case import Case
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import PARTLY_DETERMINISTIC, Failure, Sharded, Symptom, Trace
from difftest.judge.spoiled import Damage, holder, last, nudged
from difftest.judge.stage import Stage


def _other_bits(case: Case, right: Trace) -> Trace | None:
    key = None if case.model.is_program else last(right, Stage.BACKWARD)
    rank = holder(right, key) if key else None
    if key is None or rank is None or _may_vary(right):
        return None
    return nudged(right, key, rank)


def _may_vary(run: Trace) -> bool:
    """Whether the backend had to use kernels that are not deterministic."""
    return run.environment.get("deterministic") == PARTLY_DETERMINISTIC


ORDER = 2
TRAITS = Traits(takes_two_runs=True, damage=Damage(words="other bits in a second run", spoil=_other_bits))


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor that differs in the second run, or one for a second run that failed.

    Nothing where there is no second run, where the first one failed (the completion check reports that), or
    where the backend had to use kernels that are not deterministic.
    """
    if isinstance(run.actual, Failure) or run.again is None:
        return
    if isinstance(run.again, Failure):
        yield run.failure("determinism", run.again, again=True)
        return
    if _may_vary(run.actual):
        return
    for key, tensor in run.tensors():
        step, stage, name = key
        if differing := _differing(tensor, run.again.steps[step].get((stage, name))):
            wrong = RemarkFacts(remark=f"run again, ranks {differing} have other bits")
            yield run.tensor_divergence("determinism", Symptom.MISMATCH, key, wrong)


def _differing(tensor: Sharded, other: Sharded | None) -> list[int]:
    """The ranks whose pieces are not the same."""
    pieces = {} if other is None else other.pieces
    return [rank for rank, piece in tensor.pieces.items() if not same_bits(piece, pieces.get(rank))]


def same_bits(one: object, other: object) -> bool:
    """Whether two arrays hold the same values, NaN in the same places; False when one is missing."""
    return (
        one is not None
        and other is not None
        and np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    )
