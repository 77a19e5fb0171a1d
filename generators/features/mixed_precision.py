"""Parameters are float32, and the model computes with copies of them in bfloat16."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally
from generators.features import has

PATH = "wrappers"
"""The path that draws it: the cases of the path `features` stay what they were without it."""


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """A case of float32; a block that is computed again, or traced apart, would find other parameters."""
    again = case.training.checkpointing or case.start.accumulation == "scan"
    other = case.dtype != "float32" or again or has(case, "autocast", "frozen")
    if other or case.path != PATH or case.model.statistics():
        return None
    return st.fixed_dictionaries(
        {"reduce": equally("float32", "bfloat16"), "output": equally("policy", "loss")}
    )
