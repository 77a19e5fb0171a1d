"""Parameters of few dims have options of their own."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """The decay of the group of vectors: AdamW has one already, and there must be a matrix and a vector.

    Ascent changes the sign of gradients only.
    """
    dims = {len(shape) > 1 for shape in case.model.parameters().values()}
    if case.training.optimizer == "adamw" or len(dims) == 1 or has(case, "maximize"):
        return None
    return st.fixed_dictionaries({"decay": equally(0.125, 0.25)})
