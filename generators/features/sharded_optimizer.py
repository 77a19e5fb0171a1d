"""An optimizer whose state is sharded over replicas."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Replicate
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Replicas, each of which needs a parameter; the state of one rank alone cannot be saved."""
    whole = all(at == Replicate() for placements in case.layout.parameters.values() for at in placements)
    few = len(case.model.parameters()) < case.world_size
    if not whole or few or has(case, "save_and_load", "distributed_checkpoint", "optimizer"):
        return None
    return st.just({})
