"""An optimizer whose steps can be captured in a graph."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.features import has


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Adam and AdamW in float32, without further arguments; more than one step, of which they keep count."""
    others = ("amsgrad", "implementation", "parameter_groups", "tensor_rate", "weight_decay")
    adam = case.training.optimizer in ("adam", "adamw") and case.dtype == "float32"
    return st.just({}) if adam and case.training.steps > 1 and not has(case, *others) else None
