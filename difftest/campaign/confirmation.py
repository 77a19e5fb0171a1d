"""When a mismatch is believed: it persists beside an oracle that knows its rounding noise better.

Few samples of simulated rounding may miss what makes a correct run differ, such as an update whose sign
depends on rounding. The oracle then runs with 16, which mostly makes clear that the run agrees, or shows a
known fault; else with `SAMPLES_WHEN_IN_DOUBT`. A mismatch that nothing explains is never believed before.
Where a run mismatches in an early step, the further samples first end behind it, and take all steps only
where it does not persist: what a run shows in later steps follows from the first.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from difftest.campaign.campaign import ORACLE, Campaign, run_backend
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.noise import (
    SAMPLED_STEPS_VARIABLE,
    SAMPLES_VARIABLE,
    SAMPLES_WHEN_IN_DOUBT,
    THRESHOLD,
)
from difftest.judge.outcome import Outcome, Trace

STEPS = (16, SAMPLES_WHEN_IN_DOUBT)
"""The numbers of samples, one after another."""

CLEARLY = 3.0
"""How many times off the threshold is clear: the noise of 16 samples is that of 128 to a few percent."""

FAR_BEYOND_NOISE = 100.0
"""In units of the rounding noise: more samples move the noise of a tensor a few times, not so far."""

EARLY = 0.5
"""Samples that end early have less than this share of the steps of a case, since some run again with all."""


class Samples(NamedTuple):
    """How many samples the oracle's noise is of; those beyond the usual ones have so many `steps`, or all."""

    number: int
    steps: int = 0

    @property
    def options(self) -> dict[str, str]:
        """The oracle's options for them."""
        steps = {SAMPLED_STEPS_VARIABLE: str(self.steps)} if self.steps else {}
        return {SAMPLES_VARIABLE: str(self.number), **steps}


PreciseTruth: TypeAlias = Callable[[Samples], Outcome]
"""The oracle's run with these samples; raises `InfrastructureError` where it cannot be had."""

MORE_SAMPLES = Samples(SAMPLES_WHEN_IN_DOUBT).options
"""Those for the best estimate of the noise."""


class Truths:
    """The oracle's runs of a case with more samples, each made at its first call."""

    def __init__(self, campaign: Campaign, case: Case) -> None:
        self._campaign, self._case = campaign, case
        self.made: dict[Samples | None, Outcome] = {}

    def __call__(self, samples: Samples) -> Outcome:
        """As `PreciseTruth`."""
        if samples not in self.made:
            run = run_backend(self._campaign, self._case, ORACLE, samples.options)
            self.made[samples] = run.outcome
        return self.made[samples]


def confirmed(
    compare_with: Callable[[Outcome], Comparison],
    truth: Outcome,
    precise_truth: PreciseTruth,
    explained: Callable[[Comparison], bool] = lambda _: False,
) -> Comparison:
    """A run compared with the oracle's `truth`; where it mismatches, compared again with `precise_truth`.

    `explained` says whether what a run shows first is a known fault. One that is no matter of noise, or
    clearly beyond it, needs no such run: to confirm these too would take a quarter of a campaign's time.
    """
    comparison = compare_with(truth)
    if not _mismatches(comparison):
        return comparison
    if _far_off(comparison, CLEARLY * THRESHOLD) and explained(comparison):
        return comparison
    early = _early(comparison, truth)
    for samples in STEPS[-1:] if _far_off(comparison, FAR_BEYOND_NOISE) else STEPS:
        try:
            comparison = _compared(compare_with, precise_truth, samples, early)
        except InfrastructureError:
            if samples == STEPS[-1]:
                raise
            continue  # a bundle of an earlier version has the last step alone
        if _is_clear(comparison, explained):
            break
    return comparison


def _early(comparison: Comparison, truth: Outcome) -> int:
    """How many steps end with that of the first mismatch, if most steps come after it; else 0."""
    steps = len(truth.steps) if isinstance(truth, Trace) else 0
    early = _mismatches(comparison)[0].step + 1
    return early if early < EARLY * steps else 0


def _compared(
    compare_with: Callable[[Outcome], Comparison], precise_truth: PreciseTruth, samples: int, early: int
) -> Comparison:
    """A run compared with the oracle's of so many samples: of `early` steps where it mismatches in them."""
    with suppress(InfrastructureError):  # a bundle of an earlier version has those of all steps
        comparison = compare_with(precise_truth(Samples(samples, early))) if early else None
        if comparison and any(one.step < early for one in _mismatches(comparison)):
            return comparison
    return compare_with(precise_truth(Samples(samples)))


def _mismatches(comparison: Comparison) -> list[Divergence]:
    return [divergence for divergence in comparison.divergences if divergence.ratio is not None]


def _far_off(comparison: Comparison, ratio: float) -> bool:
    """Whether what a run shows first is no matter of noise, or so many times the noise."""
    first = comparison.divergences[0]
    return first.ratio is None or first.ratio >= ratio


def _grows_far_off(comparison: Comparison) -> bool:
    """Whether what a run shows first is far beyond noise in a later step, or another tensor of its stage."""
    stage = comparison.divergences[0].stage
    return any(
        measured.ratio >= FAR_BEYOND_NOISE for measured in comparison.measurements if measured.stage is stage
    )


def _is_clear(comparison: Comparison, explained: Callable[[Comparison], bool]) -> bool:
    """Whether more samples could hardly change what a comparison says."""
    if _mismatches(comparison):
        clear = _far_off(comparison, CLEARLY * THRESHOLD) or _grows_far_off(comparison)
        return clear and explained(comparison)
    return all(measured.ratio <= THRESHOLD / CLEARLY for measured in comparison.measurements)
