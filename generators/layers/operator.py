"""Operators are drawn by `generators.operators`, for programs alone; no other model has them."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.operator import Operator
from difftest.cases.layout import Replicate
from generators.layers import Block, ByParameter, Cut

BLOCKS: tuple[Block, ...] = ()


def placements(*, layer: Operator, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Every operand whole; the path `operators` places them in all ways."""
    return st.just(dict.fromkeys(layer.operands, Replicate()))
