"""Operators that compute in bfloat16, by `torch.autocast`."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """A case of float32."""
    return st.just({}) if case.dtype == "float32" else None
