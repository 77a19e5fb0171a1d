"""The implementation of an optimizer: several tensors at once, or one kernel for all of its operators."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:  # noqa: ARG001  any case
    """Any optimizer has both."""
    return st.fixed_dictionaries({"kind": equally("foreach", "fused")})
