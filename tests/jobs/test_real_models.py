"""What is believed of a model's run beside its float64 reference, without a cluster."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from samples import NOISE, Floats, Key, a_case, candidate, oracle

from difftest.campaign.campaign import ORACLE
from difftest.campaign.confirmation import STEPS
from difftest.cases.case import Case
from difftest.jobs.proof import real_models
from difftest.judge.noise import SAMPLES_VARIABLE
from difftest.judge.outcome import Outcome
from workers.isolate import sandbox

BACKEND = "torch_ddp"


@pytest.fixture(autouse=True)
def _no_outcomes_of_other_tests() -> Iterator[None]:
    real_models.expected_outcome.cache_clear()
    yield
    real_models.expected_outcome.cache_clear()


def verdict_and_samples(
    monkeypatch: pytest.MonkeyPatch, *, error: float, noise_in_doubt: float
) -> tuple[str, list[int]]:
    """The verdict on a run that is `error` times the usual noise off, and the samples that were taken then.

    With more samples the noise is `noise_in_doubt` times the usual one.
    """
    samples = list[int]()

    def off(_step: int, _key: Key, value: Floats) -> Floats:
        return np.asarray(value + error * NOISE * np.sqrt(np.mean(value**2)))

    def run(case: Case, backend: str, *, options: Mapping[str, str] | None = None) -> Outcome:
        if backend != ORACLE:
            return candidate(case, off)
        if not options:
            return oracle(case, NOISE)
        samples.append(int(options[SAMPLES_VARIABLE]))
        return oracle(case, noise_in_doubt * NOISE)

    monkeypatch.setattr(sandbox, "run", run)
    return real_models.comparison(a_case(), BACKEND).verdict, samples


def test_a_mismatch_that_more_samples_explain_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice by a number near zero, as in ReLU, shows in one of many samples."""
    assert verdict_and_samples(monkeypatch, error=17.0, noise_in_doubt=17.0) == ("agree", [STEPS[0]])


def test_a_mismatch_is_believed_with_the_most_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_and_samples(monkeypatch, error=50.0, noise_in_doubt=1.0) == ("diverge", [*STEPS])


def test_what_agrees_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_and_samples(monkeypatch, error=1.0, noise_in_doubt=1.0) == ("agree", [])
