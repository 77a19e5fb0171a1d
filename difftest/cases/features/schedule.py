"""A learning rate scheduler."""

from typing import Literal, TypeAlias

from difftest.cases.schema import Positive, Schema

Kind: TypeAlias = Literal["step", "exponential", "linear", "cosine", "lambda"]
"""The classes of `torch.optim.lr_scheduler`, in short."""


class Options(Schema, frozen=True):
    """The kind of schedule, and the factor of the learning rate."""

    kind: Kind
    factor: Positive
