"""When a mismatch is believed: it persists beside an oracle that knows its rounding noise better.

Few samples of simulated rounding may miss what makes a correct run differ, such as an update whose sign
depends on rounding. The oracle then runs with 16, which mostly makes clear that the run agrees, or shows a
known fault; else with `SAMPLES_WHEN_IN_DOUBT`. A mismatch that nothing explains is never believed before.
"""

from collections.abc import Callable
from typing import TypeAlias

from difftest.campaign.campaign import ORACLE, Campaign, run_backend
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import Comparison
from difftest.judge.noise import SAMPLES_VARIABLE, SAMPLES_WHEN_IN_DOUBT, THRESHOLD
from difftest.judge.outcome import Outcome

STEPS = (16, SAMPLES_WHEN_IN_DOUBT)
"""The numbers of samples, one after another."""

CLEARLY = 3.0
"""How many times off the threshold is clear: the noise of 16 samples is that of 128 to a few percent."""

FAR_BEYOND_NOISE = 100.0
"""In units of the rounding noise: more samples move the noise of a tensor a few times, not so far."""

PreciseTruth: TypeAlias = Callable[[int], Outcome]
"""The oracle's run with so many samples; raises `InfrastructureError` where it cannot be had."""


def with_samples(samples: int) -> dict[str, str]:
    """The oracle's options for so many samples of its noise."""
    return {SAMPLES_VARIABLE: str(samples)}


MORE_SAMPLES = with_samples(SAMPLES_WHEN_IN_DOUBT)
"""Those for the best estimate of the noise."""


class Truths:
    """The oracle's runs of a case with more samples, by their number, each made at its first call."""

    def __init__(self, campaign: Campaign, case: Case) -> None:
        self._campaign, self._case = campaign, case
        self.made: dict[int, Outcome] = {}

    def __call__(self, samples: int) -> Outcome:
        """As `PreciseTruth`."""
        if samples not in self.made:
            options = with_samples(samples)
            self.made[samples] = run_backend(self._campaign, self._case, ORACLE, options).outcome
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
    for samples in STEPS[-1:] if _far_off(comparison, FAR_BEYOND_NOISE) else STEPS:
        try:
            comparison = compare_with(precise_truth(samples))
        except InfrastructureError:
            if samples == STEPS[-1]:
                raise
            continue  # a bundle of an earlier version has the last step alone
        if _is_clear(comparison, explained):
            break
    return comparison


def _mismatches(comparison: Comparison) -> bool:
    return any(divergence.ratio is not None for divergence in comparison.divergences)


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
