"""Torch's cross entropy of a table of logits, with label smoothing, class weights and ignored targets."""

from typing import Literal

from difftest.cases.schema import Schema, Share, Size


class Arguments(Schema, frozen=True):
    """Ids, classes, and the options of the loss; with `ignored` the targets of one class do not count."""

    vocabulary: Size
    classes: Size
    smoothing: Share
    weighted: bool
    ignored: bool
    reduction: Literal["none", "mean", "sum"]
