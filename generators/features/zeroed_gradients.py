"""Gradients that are set to zero and not dropped."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """A second step shows what was left of the first one's."""
    return st.just({}) if case.training.steps > 1 else None
