"""A parameter that is not trained."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The name of one of several parameters; none in models that tie theirs."""
    names = sorted(case.model.parameters())
    tied = any(layer.borrows() for _, layer in walk(case.model.layers))
    return None if tied or len(names) == 1 else st.fixed_dictionaries({"name": st.sampled_from(names)})
