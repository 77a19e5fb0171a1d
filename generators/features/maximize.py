"""Ascent instead of descent."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption

MOST_STEPS = 3


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Any optimizer can; little is left to compare after many steps of ascent."""
    return st.just({}) if case.training.steps <= MOST_STEPS else None
