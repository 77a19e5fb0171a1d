"""What the backward pass needs is kept on the host."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Any case; not where a block is computed again, so that nothing of it is kept."""
    return None if case.training.checkpointing else st.just({})
