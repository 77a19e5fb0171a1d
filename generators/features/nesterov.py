"""Nesterov momentum."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """SGD with momentum; a decay that is added to gradients would come before it."""
    decays = has(case, "weight_decay", "parameter_groups")
    return st.just({}) if case.training.optimizer == "momentum" and not decays else None
