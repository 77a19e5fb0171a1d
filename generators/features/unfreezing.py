"""A parameter that is not trained in the first steps."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has
from generators.features.frozen import options as of_frozen

PATH = "wrappers"
"""The path that draws it: the cases of the path `features` stay what they were without it."""


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Sharded parameters alone: DDP's documentation has what is trained decided before it wraps.

    Not beside what begins anew, or counts, with the parameters that have a gradient.
    """
    frozen, others = of_frozen(case=case), ("frozen", "distributed_checkpoint", "save_and_load")
    sharded = case.path == PATH and "dp_shard" in case.layout.mesh.names
    if frozen is None or not sharded or case.training.steps == 1 or has(case, *others):
        return None
    return st.tuples(frozen, st.integers(1, case.training.steps - 1)).map(
        lambda drawn: {**drawn[0], "step": drawn[1]}
    )
