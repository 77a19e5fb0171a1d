"""When a mismatch is confirmed by an oracle that knows its noise better, and when that is not needed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from samples import NOISE, Floats, Key, a_case, candidate, oracle

from difftest.campaign.campaign import ORACLE, TRIES, Campaign
from difftest.campaign.case_run import run_group
from difftest.campaign.confirmation import CLEARLY, FAR_BEYOND_NOISE, STEPS
from difftest.cases.case import Case, DType, Training
from difftest.ground.errors import InfrastructureError
from difftest.judge.noise import SAMPLED_STEPS_VARIABLE, SAMPLES_VARIABLE, THRESHOLD
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus


class Backend:
    """A backend of the XLA side that takes every case."""

    SIDE, FRAMEWORK = "xla", "torch_xla"

    def unsupported(self, _case: Case) -> str | None:
        """Return None: every case is supported."""
        return None


def verdict_and_samples(  # noqa: PLR0913  the last ones have a default
    folder: Path,
    error: float,
    explanation: str,
    dtype: DType = "float32",
    *,
    noise_in_doubt: Mapping[int, float] = {},
    growth: float = 1.0,
) -> tuple[str, list[int]]:
    """The verdict on a run that is `error` times the noise off, and the samples that the oracle had then.

    The error is `growth` times as large in each step as in the one before.

    `noise_in_doubt` is the noise that so many samples and more give, in units of the usual one; by default it
    turns out to be as large as the error. The made-up loss of a case in float16 is of a wrong dtype.
    """
    samples = list[int]()
    levels = noise_in_doubt or {0: error}

    def off(step: int, _key: Key, value: Floats) -> Floats:
        return np.asarray(value + error * growth**step * NOISE * np.sqrt(np.mean(value**2)))

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        if backend != ORACLE:
            return candidate(case, off)
        if not options:
            return oracle(case, NOISE)
        samples.append(int(options[SAMPLES_VARIABLE]))
        estimates = [least for least in levels if least <= samples[-1]]
        if not estimates:
            msg = "it was not recorded"
            raise InfrastructureError(msg)
        return oracle(case, levels[max(estimates)] * NOISE)

    campaign = Campaign(
        name="one",
        backends={"spmd": Backend()},
        execute=execute,
        corpus=Corpus(folder),
        explanation=lambda *_, **__: explanation,
    )
    case = a_case(dtype=dtype, training=Training(steps=2))
    (result,) = run_group(campaign, [(0, case)])
    return result.comparisons["spmd"].verdict, samples


@pytest.mark.parametrize(
    ("error", "samples"), [(2 * THRESHOLD, STEPS[:1]), (10 * FAR_BEYOND_NOISE, STEPS[1:])]
)
def test_a_mismatch_that_nothing_explains_must_persist_with_more_samples(
    tmp_path: Path, error: float, samples: tuple[int, ...]
) -> None:
    assert verdict_and_samples(tmp_path, error, "") == ("agree", [*samples])


def test_a_mismatch_that_nothing_explains_is_not_believed_before_it_persists_with_all_samples(
    tmp_path: Path,
) -> None:
    error = 2 * CLEARLY * THRESHOLD
    persists = verdict_and_samples(tmp_path, error, "", noise_in_doubt={0: 1.0})
    assert persists == ("diverge", [*STEPS])
    shows_late = verdict_and_samples(tmp_path, error, "", noise_in_doubt={0: 1.0, STEPS[-1]: error})
    assert shows_late == ("agree", [*STEPS])


def test_a_comparison_near_the_threshold_gets_more_samples(tmp_path: Path) -> None:
    near = 2 * THRESHOLD / CLEARLY
    assert verdict_and_samples(tmp_path, 2 * THRESHOLD, "", noise_in_doubt={0: 2 * THRESHOLD / near}) == (
        "agree",
        [*STEPS],
    )


def test_a_known_fault_far_beyond_the_noise_is_not_confirmed_again(tmp_path: Path) -> None:
    assert verdict_and_samples(tmp_path, 10 * FAR_BEYOND_NOISE, "an entry of the ledger") == ("diverge", [])


def test_a_known_fault_that_grows_far_beyond_the_noise_is_clear_with_few_more_samples(tmp_path: Path) -> None:
    entry, near = "an entry of the ledger", 2 * THRESHOLD
    grows = verdict_and_samples(tmp_path, near, entry, noise_in_doubt={0: 1.0}, growth=FAR_BEYOND_NOISE)
    assert grows == ("diverge", [STEPS[0]])
    new = verdict_and_samples(tmp_path, near, "", noise_in_doubt={0: 1.0}, growth=FAR_BEYOND_NOISE)
    assert new == ("diverge", [*STEPS])


def test_a_known_fault_near_the_noise_must_persist_too(tmp_path: Path) -> None:
    entry = "an entry of the ledger"
    assert verdict_and_samples(tmp_path, 2 * THRESHOLD, entry) == ("agree", [STEPS[0]])
    near, clear = 2 * THRESHOLD, 2 * CLEARLY * THRESHOLD
    assert verdict_and_samples(tmp_path, near, entry, noise_in_doubt={0: 1.0}) == ("diverge", [*STEPS])
    assert verdict_and_samples(tmp_path, clear, entry, noise_in_doubt={0: 1.0}) == ("diverge", [])


def test_a_known_fault_that_is_no_matter_of_noise_is_not_confirmed_again(tmp_path: Path) -> None:
    assert verdict_and_samples(tmp_path, 2 * THRESHOLD, "", "float16") == ("diverge", [STEPS[-1]])
    assert verdict_and_samples(tmp_path, 2 * THRESHOLD, "an entry of the ledger", "float16") == (
        "diverge",
        [],
    )


def test_a_bundle_of_an_earlier_version_has_the_last_step_alone(tmp_path: Path) -> None:
    recorded = verdict_and_samples(tmp_path, 2 * THRESHOLD, "", noise_in_doubt={STEPS[-1]: 2 * THRESHOLD})
    assert recorded == ("agree", [STEPS[0]] * TRIES + [STEPS[-1]])


def test_further_samples_end_behind_a_mismatch_in_an_early_step_that_persists(tmp_path: Path) -> None:
    def requests(error: float, noise: float) -> list[tuple[int, str | None]]:
        """The samples and steps that a run asks for which is `error` off in the second of five steps."""
        asked = list[tuple[int, str | None]]()

        def off(step: int, _key: Key, value: Floats) -> Floats:
            return np.asarray(value + (step == 1) * error * NOISE * np.sqrt(np.mean(value**2)))

        def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            if backend != ORACLE:
                return candidate(case, off)
            if options:
                asked.append((int(options[SAMPLES_VARIABLE]), options.get(SAMPLED_STEPS_VARIABLE)))
            return oracle(case, noise * NOISE if options else NOISE)

        campaign = Campaign(
            name="one", backends={"spmd": Backend()}, execute=execute, corpus=Corpus(tmp_path)
        )
        run_group(campaign, [(0, a_case(training=Training(steps=5)))])
        return asked

    few, many = STEPS
    assert requests(10 * FAR_BEYOND_NOISE, 1.0) == [(many, "2")]
    assert requests(2 * THRESHOLD, 1.0) == [(few, "2"), (many, "2")]
    assert requests(2 * THRESHOLD, 20 * THRESHOLD) == [(few, "2"), (few, None)], "it agrees with more noise"
