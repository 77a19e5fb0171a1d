"""Modules of torch are drawn from the table of `generators.operators`, for programs alone."""

from generators.layers import operator

BLOCKS = operator.BLOCKS
placements = operator.placements
