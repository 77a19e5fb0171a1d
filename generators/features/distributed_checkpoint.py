"""A distributed checkpoint in the middle of a run."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The step before which the program saves and loads, and whether pieces are others when it loads.

    The path `wrappers` saves before the first step too, as trainers do that begin with a checkpoint.
    """
    if case.training.steps == 1 or has(case, "save_and_load"):
        return None
    least = 0 if case.path == "wrappers" else 1
    return st.fixed_dictionaries(
        {"step": st.integers(least, case.training.steps - 1), "resharded": st.booleans()}
    )
