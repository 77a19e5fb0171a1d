"""A Linear layer that is frozen, with a trained correction of low rank beside it (LoRA)."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, linear, size
from generators.chances import equally
from generators.sizes import widths

WEIGHT = 1


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Widths, the rank, and what the correction is multiplied by, which is divided by the rank."""
    return st.fixed_dictionaries(
        {
            "inputs": widths(unit=unit),
            "outputs": widths(unit=unit),
            "rank": equally(2, 1, 4),
            "alpha": equally(4.0, 1.0),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Three matrices and the frozen layer's bias."""
    inputs, outputs, rank = (size(arguments, name) for name in ("inputs", "outputs", "rank"))
    parameters = {
        **linear("base", outputs, inputs, bias=True),
        **linear("down", rank, inputs),
        **linear("up", outputs, rank),
    }
    cuts = {"base.weight": (0, 1), "down.weight": (0, 1), "up.weight": (0, 1)}
    return Declared(parameters=parameters, inputs=inputs, outputs=outputs, cuts=cuts)
