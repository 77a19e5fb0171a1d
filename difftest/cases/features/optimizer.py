"""Another optimizer of `torch.optim`."""

from typing import Literal, TypeAlias

from difftest.cases.schema import Positive, Schema

Kind: TypeAlias = Literal["adadelta", "adagrad", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop"]
"""The classes of `torch.optim`, in small letters."""


class Options(Schema, frozen=True):
    """Which one, in which form, and its learning rate."""

    kind: Kind
    form: Literal["loop", "foreach"]
    rate: Positive
