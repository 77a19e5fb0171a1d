"""When a mismatch is confirmed by an oracle that knows its noise better, and when that is not needed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from samples import NOISE, Floats, Key, a_case, candidate, oracle

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.case_run import FAR_BEYOND_NOISE, MORE_SAMPLES, run_group
from difftest.cases.case import Case, DType
from difftest.judge.noise import THRESHOLD
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus


class Backend:
    """A backend of the XLA side that takes every case."""

    SIDE, FRAMEWORK = "xla", "torch_xla"

    def unsupported(self, _case: Case) -> str | None:
        """Return None: every case is supported."""
        return None


def verdict_and_runs(
    folder: Path, error: float, explanation: str, dtype: DType = "float32"
) -> tuple[str, int]:
    """The verdict on a run that is `error` times the noise off, and how often the oracle had more samples.

    With more samples the noise turns out to be as large as the error. The made-up loss has another dtype than
    a case in float64.
    """
    more = 0

    def off(_step: int, _key: Key, value: Floats) -> Floats:
        return np.asarray(value + error * NOISE * np.sqrt(np.mean(value**2)))

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        nonlocal more
        more += options == MORE_SAMPLES
        noise = error * NOISE if options else NOISE
        return oracle(case, noise) if backend == ORACLE else candidate(case, off)

    campaign = Campaign(
        name="one",
        backends={"spmd": Backend()},
        execute=execute,
        corpus=Corpus(folder),
        explanation=lambda *_: explanation,
    )
    (result,) = run_group(campaign, [(0, a_case(dtype=dtype))])
    return result.comparisons["spmd"].verdict, more


@pytest.mark.parametrize("error", [2 * THRESHOLD, 10 * FAR_BEYOND_NOISE])
def test_a_mismatch_that_nothing_explains_must_persist_with_more_samples(
    tmp_path: Path, error: float
) -> None:
    assert verdict_and_runs(tmp_path, error, "") == ("agree", 1)


def test_a_known_fault_far_beyond_the_noise_is_not_confirmed_again(tmp_path: Path) -> None:
    assert verdict_and_runs(tmp_path, 10 * FAR_BEYOND_NOISE, "an entry of the ledger") == ("diverge", 0)


def test_a_known_fault_near_the_noise_must_persist_too(tmp_path: Path) -> None:
    assert verdict_and_runs(tmp_path, 2 * THRESHOLD, "an entry of the ledger") == ("agree", 1)


def test_a_known_fault_that_is_no_matter_of_noise_is_not_confirmed_again(tmp_path: Path) -> None:
    assert verdict_and_runs(tmp_path, 2 * THRESHOLD, "", "float64") == ("diverge", 1)
    assert verdict_and_runs(tmp_path, 2 * THRESHOLD, "an entry of the ledger", "float64") == ("diverge", 0)
