"""A distributed checkpoint in the middle of a run."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The step before which the program saves and loads, and whether pieces are others when it loads."""
    if case.training.steps == 1 or has(case, "save_and_load"):
        return None
    return st.fixed_dictionaries(
        {"step": st.integers(1, case.training.steps - 1), "resharded": st.booleans()}
    )
