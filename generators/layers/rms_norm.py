"""How normalisation by the root mean square is drawn.

Models draw it with `generators.layers.layer_norm.norms`.
"""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.rms_norm import RMSNorm
from generators.layers import Block, ByParameter, Cut, whole

BLOCKS: tuple[Block, ...] = ()


def placements(*, layer: RMSNorm, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """Whole."""
    return st.just(whole(layer))
