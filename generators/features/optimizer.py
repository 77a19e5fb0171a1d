"""Another optimizer of `torch.optim`."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally
from generators.features import has

KINDS = ("adadelta", "adagrad", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop")
RATES = (2.0**-7, 2.0**-10)


OWN = (
    "amsgrad",
    "capturable",
    "implementation",
    "nesterov",
    "parameter_groups",
    "tensor_rate",
    "weight_decay",
)
"""The features that give the case's own optimizer arguments which these do not all have."""


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Which one, and its learning rate; not in float16, in which their epsilons are 0."""
    if case.dtype == "float16" or has(case, *OWN):
        return None
    return st.fixed_dictionaries(
        {"kind": equally(*KINDS), "form": equally("loop", "foreach"), "rate": equally(*RATES)}
    )
