"""Another optimizer of `torch.optim` in place of Adam, by its loop or by its `foreach` implementation.

Equal to the formula of its documentation.
"""

from functools import partial

import torch

from workers.training.features import Hooks, Options
from workers.training.formulas import ByFormula

CLASSES = {
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adamax": torch.optim.Adamax,
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "rprop": torch.optim.Rprop,
}


def hooks(options: Options) -> Hooks:
    """With the arguments that torch gives it."""
    kind = partial(CLASSES[str(options["kind"])], foreach=options["form"] == "foreach")
    return Hooks(kind=lambda _optimizer: kind)


def equal(options: Options) -> Hooks:
    """One tensor after another."""
    return Hooks(kind=lambda _optimizer: partial(ByFormula, kind=str(options["kind"])))
