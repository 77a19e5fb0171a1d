"""Weights that decay."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """AdamW has a decay already, and so has a group; ascent changes the sign of gradients only."""
    if case.training.optimizer == "adamw" or has(case, "parameter_groups", "maximize"):
        return None
    return st.fixed_dictionaries({"decay": equally(0.0625, 0.25)})
