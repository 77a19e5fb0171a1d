"""Saving and loading in the middle of a run."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The step before which the program saves and loads: not the first, when there is no state yet."""
    steps = case.training.steps
    return st.fixed_dictionaries({"step": st.integers(1, steps - 1)}) if steps > 1 else None
