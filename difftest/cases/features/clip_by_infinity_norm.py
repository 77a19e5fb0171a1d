"""Gradients clipped by the greatest of their magnitudes."""

from difftest.cases.schema import Positive, Schema


class Options(Schema, frozen=True):
    """The greatest magnitude that a gradient may have."""

    norm: Positive
