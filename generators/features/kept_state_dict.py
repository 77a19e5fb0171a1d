"""A state dict that is taken once, before the first step, and kept."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has

PATH = "wrappers"
"""The path that draws it: the cases of the path `features` stay what they were without it."""


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Any case with a second step; not beside another that loads a module."""
    loads = has(case, "averaged_weights", "distributed_checkpoint", "save_and_load")
    return st.just({}) if case.path == PATH and case.training.steps > 1 and not loads else None
