"""Batch normalization over rows, in training or in evaluation, with running statistics."""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layers.building_block import Arguments
from generators.blocks import Declared, size
from generators.chances import equally, weighted
from generators.sizes import widths

WEIGHT = 2


@functools.cache
def arguments(*, unit: int) -> SearchStrategy[Arguments]:
    """Always with a momentum: without one torch's module reads its counter on the host in every step."""
    return st.fixed_dictionaries(
        {
            "width": widths(unit=unit),
            "momentum": equally(0.125, 0.5),
            "affine": weighted((3, True), (1, False)),
            "train": weighted((3, True), (1, False)),
        }
    )


def declared(arguments: Arguments) -> Declared:
    """Scale and shift, and three buffers; in training rows influence each other."""
    width = size(arguments, "width")
    affine = {"norm.weight": (width,), "norm.bias": (width,)} if arguments["affine"] else {}
    running = {"norm.running_mean": (width,), "norm.running_var": (width,)}
    return Declared(
        parameters=affine,
        inputs=width,
        outputs=width,
        held_buffers={**running, "norm.num_batches_tracked": ()},
        counters=("norm.num_batches_tracked",),
        rowwise=not arguments["train"],
    )
