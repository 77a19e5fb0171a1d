"""Batch normalization over rows, in training or in evaluation, with running statistics."""

from difftest.cases.schema import Schema, Share, Size


class Arguments(Schema, frozen=True):
    """`affine`: it has a scale and a shift; `train`: it is in training."""

    width: Size
    momentum: Share
    affine: bool
    train: bool
