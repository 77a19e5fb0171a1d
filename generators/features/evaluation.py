"""Evaluation between steps."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Under `no_grad`; not where a static graph must be the same in every iteration."""
    return None if case.replication.static_graph else st.just({})
