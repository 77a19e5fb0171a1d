"""An exponential moving average of the weights, which the model has in the end."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """How much of the average is kept in a step; a second step makes it one."""
    return st.fixed_dictionaries({"decay": equally(0.5, 0.875)}) if case.training.steps > 1 else None
