"""Where the oracle is finite, so is the candidate; a program has NaN and infinities where the oracle does."""

from collections.abc import Iterator

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import local_slices
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.elements import KINDS, Kinds, kinds
from difftest.judge.facts import NOT_FINITE, OTHER_KINDS, KindsFacts
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.outcome import Sharded, Symptom, Trace
from difftest.judge.spoiled import Damage, holder, last, with_last_element
from difftest.judge.stage import Stage


def _with_nan(case: Case, right: Trace) -> Trace | None:
    key = None if case.model.is_program else last(right, Stage.FORWARD)
    rank = holder(right, key) if key else None
    return with_last_element(right, key, rank, np.nan) if key and rank is not None else None


ORDER = 3
TRAITS = Traits(
    uses_numbers=True,
    scripts={Symptom.NONFINITE: "nonfinite"},
    damage=Damage(words="a value that is not a number", spoil=_with_nan),
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor with a value of the wrong kind on some rank."""
    for key, tensor in run.tensors():
        if wrong := list(_wrong(run, key, tensor)):
            pairs = [(want, got) for _, wants, gots in wrong for want, got in zip(wants, gots, strict=True)]
            nature, actual, expected = (
                _described(set(pairs)) if run.case.model.is_program else ("", NOT_FINITE, "")
            )
            ranks = tuple(rank for rank, _, _ in wrong)
            facts = KindsFacts(count=len(pairs), actual=actual, expected=expected, ranks=ranks)
            yield run.tensor_divergence("finite", Symptom.NONFINITE, key, facts, nature=nature)


def _wrong(run: MeasuredRun, key: Key, tensor: Sharded) -> Iterator[tuple[int, list[int], list[int]]]:
    """Each rank with wrong values, the kinds that the oracle has there, and those that the rank has."""
    program, comparable = run.case.model.is_program, key in run.measured
    odd = {rank: piece for rank, piece in tensor.pieces.items() if not np.isfinite(piece).all()}
    if not comparable:  # the shape check reports a program's
        yield from () if program else (_all_wrong(rank, kinds(piece)) for rank, piece in odd.items())
        return
    truth, deviation = run.truth(key)
    if not odd and np.isfinite(truth).all():
        return
    for rank, piece in tensor.pieces.items():
        at = local_slices(tensor.shape, tensor.placements, run.case.layout.mesh, rank)
        got, want = kinds(piece), kinds(truth[at])
        decided = run.decided(truth[at], deviation[at], piece) if program else want == 0
        wrong = (got != want) & decided
        if wrong.any():
            yield rank, want[wrong].tolist(), got[wrong].tolist()


def _all_wrong(rank: int, got: Kinds) -> tuple[int, list[int], list[int]]:
    """What `_wrong` yields of a rank where the oracle has nothing to compare with, and so numbers."""
    wrong = got[got > 0].tolist()
    return rank, [0] * len(wrong), wrong


def _described(pairs: set[tuple[int, int]]) -> tuple[str, str, str]:
    """The nature, the actual and the expected kind of wrong values, from pairs of expected and actual ones.

    What is there instead of a NaN depends on the numbers, and is no part of the nature.
    """
    wants, gots = ({pair[side] for pair in pairs} for side in (0, 1))
    nature = f"not {KINDS[min(wants)]}" if len(wants) == 1 else "values of other kinds"
    if len(pairs) > 1:
        return nature, OTHER_KINDS, ""
    return nature, KINDS[min(gots)], KINDS[min(wants)]
