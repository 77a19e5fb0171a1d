"""Another optimizer of `torch.optim`."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.options import FeatureOption
from generators.chances import equally
from generators.features import has

KINDS = ("adadelta", "adagrad", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop")


def options(*, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
    """Which one, in place of Adam, whose learning rates are theirs; its arguments are not."""
    own = ("amsgrad", "capturable", "implementation", "parameter_groups", "tensor_rate", "weight_decay")
    if case.training.optimizer != "adam" or has(case, *own):
        return None
    return st.fixed_dictionaries({"kind": equally(*KINDS), "form": equally("loop", "foreach")})
