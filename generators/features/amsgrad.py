"""The AMSGrad variant of Adam."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """A second step shows that the greatest second moment is kept."""
    adam = case.training.optimizer in ("adam", "adamw")
    return st.just({}) if adam and case.training.steps > 1 else None
