"""How changes of placements are drawn; `generators.models.moving` puts them into models."""

import functools

from hypothesis import strategies as st

from difftest.cases.layers.redistribute import Redistribute
from generators.layers import Block, kept_whole

BLOCKS: tuple[Block, ...] = ()


@functools.cache
@st.composite
def redistributes(draw: st.DrawFn, *, width: int, axes: int, sequence: bool) -> Redistribute:
    """To any placements over `axes` mesh axes, by any function of DTensor.

    Dim 2 exists only if there is a `sequence`.
    """
    dims = st.sampled_from((0, 1, None, 2) if sequence else (0, 1, None))
    return Redistribute(
        width=width,
        dims=tuple(draw(dims) for _ in range(axes)),
        by=draw(st.sampled_from(("redistribute", "full_tensor", "to_local"))),
    )


placements = kept_whole
