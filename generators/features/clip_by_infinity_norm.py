"""Gradients clipped by the greatest of their magnitudes."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The greatest magnitude; none where gradients are clipped by their norm already."""
    if case.training.clip_norm is not None:
        return None
    return st.fixed_dictionaries({"norm": equally(0.015625, 0.125)})
