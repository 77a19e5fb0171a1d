"""A learning rate scheduler."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally

KINDS = ("step", "exponential", "linear", "cosine", "lambda")


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The kind of schedule; it needs a second step to show."""
    if case.training.steps == 1:
        return None
    return st.fixed_dictionaries({"kind": equally(*KINDS), "factor": equally(0.5, 0.75)})
