"""Weights that decay."""

from difftest.cases.schema import Schema, Share


class Options(Schema, frozen=True):
    """The weight decay."""

    decay: Share
