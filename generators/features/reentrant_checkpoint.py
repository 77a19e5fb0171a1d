"""Blocks that are computed again by a backward pass within the backward pass."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Where blocks are computed again; `DistributedDataParallel` cannot look for unused parameters then."""
    return None if not case.training.checkpointing or case.replication.find_unused_parameters else st.just({})
