"""A gradient scaler, and a step that overflows."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The step ahead of which a backward overflows; half types have too little room for a scale."""
    if case.dtype != "float32" or case.replication.static_graph:
        return None
    return st.fixed_dictionaries({"step": st.integers(0, case.training.steps - 1)})
