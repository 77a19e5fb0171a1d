"""Usual forms: the program without one of those that it takes."""

from collections.abc import Iterator

from difftest.cases.resets import option_resets
from difftest.findings.ablations import Ablation, Baseline

ORDER = 15
PREFIX = "spelling."


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """One for each form."""
    for option, case in option_resets(baseline.case):
        if option.startswith(PREFIX):
            form = option.removeprefix(PREFIX).partition("=")[0]
            yield baseline.changed(f"the program does not take the form {form}", case=case)
