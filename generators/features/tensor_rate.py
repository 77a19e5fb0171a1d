"""A learning rate that is a tensor."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """None beside `foreach`, for which torch refuses it."""
    return None if has(case, "implementation") else st.just({})
