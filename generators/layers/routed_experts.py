"""Experts are drawn by the path of that name; no other model has them."""

from hypothesis import strategies as st

from difftest.cases.layers.routed_experts import RoutedExperts
from generators.chances import equally, sometimes, weighted
from generators.layers import Block, kept_whole

BLOCKS: tuple[Block, ...] = ()

KERNEL = 8
"""Widths that are multiples of this suit a grouped product in every dtype."""


@st.composite
def drawn(draw: st.DrawFn, *, width: int, unit: int, cut: int, exact: bool) -> RoutedExperts:
    """Experts of which `unit` ranks have some each, with a hidden width that `cut` ranks share evenly."""
    experts = unit * draw(weighted((2, 1), (3, 2), (1, 3)))
    if not exact and draw(sometimes(one_in=6)) and unit > 1:
        experts = 2 * unit - 1  # the last rank has one less
    top = draw(st.integers(1, min(2, experts)))
    plain = exact or draw(sometimes(one_in=5))
    return RoutedExperts(
        width=width,
        hidden=4 * cut if exact else draw(equally(KERNEL, KERNEL, 4, 6)) * cut,
        experts=experts,
        top=top,
        router=not plain,
        capacity=draw(weighted((3, None), (1, 1), (1, 2), (1, 3))),
        shared=draw(weighted((2, None), (1, 4))) if exact else draw(weighted((2, None), (1, 4), (1, 8))),
        function="relu" if exact else draw(equally("silu", "relu")),
        lean=draw(weighted((3, 0.0), (2, 0.25), (1, 1.0))),
    )


# the path `experts` places them: an expert is on one rank
placements = kept_whole
