"""How normalisation by the root mean square is drawn.

Models draw it with `generators.layers.layer_norm.norms`.
"""

from generators.layers import Block, kept_whole

BLOCKS: tuple[Block, ...] = ()


placements = kept_whole
