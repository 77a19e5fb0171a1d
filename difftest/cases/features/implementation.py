"""The implementation of an optimizer: several tensors at once, or one kernel for all of its operators."""

from typing import Literal

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """Torch's name of it."""

    kind: Literal["foreach", "fused"]
