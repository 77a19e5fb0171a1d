"""A block that only the last of some forward passes uses."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has

PATH = "wrappers"
"""The path that draws it: the cases of the path `features` stay what they were without it."""


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Several parts of a batch, the last of which uses it; FSDP alone need not find what is unused.

    Not where a block is computed again, or where forward passes are traced once or are more than those.
    """
    blocks = [str(i) for i, layer in enumerate(case.model.layers) if layer.held is not None and i > 0]
    more = has(case, "evaluation", "gradient_scaler") or case.start.accumulation == "scan"
    sharded = case.path == PATH and "dp_shard" in case.layout.mesh.names
    parts = case.training.accumulation
    if not blocks or more or not sharded or parts == 1 or case.training.checkpointing:
        return None
    return st.sampled_from(blocks).map(lambda block: {"block": block, "parts": parts})
