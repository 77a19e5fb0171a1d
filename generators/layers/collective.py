"""How collectives are drawn; only the path of that name has them."""

import functools
from typing import Literal

import msgspec
from hypothesis import strategies as st

from difftest.cases.layers.collective import REDUCING, SLICED, Collective, Operation
from difftest.cases.layout import Mesh
from generators.chances import weighted
from generators.layers import Block, kept_whole

BLOCKS: tuple[Block, ...] = ()

OPERATIONS: tuple[Operation, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "permute",
    "broadcast",
)
FACTORS = (1.0, 2.0, 0.5)
"""Powers of two: they round nothing."""
OTHER_FACTORS = (1.5, 0.75, 0.25)
"""Numbers that every dtype has."""


@functools.cache
@st.composite
def collectives(draw: st.DrawFn, *, mesh: Mesh, exact: bool) -> Collective:
    """Any operation over any axis of `mesh`.

    Widths divide into the slices that it needs, and into halves for a list.
    """
    axis, operation = draw(st.integers(0, len(mesh.axes) - 1)), draw(st.sampled_from(OPERATIONS))
    form: Literal["single", "list"] = draw(weighted((2, "single"), (1, "list")))
    slices = mesh.shape[axis] if operation in SLICED else 1
    widths = (2, 4, 6, 8) if form == "list" else (2, 1, 3, 4, 5, 8)
    return Collective(
        operation=operation,
        width=slices * draw(st.sampled_from(widths[:3] if slices > 1 else widths)),
        mesh=mesh.shape,
        axis=axis,
        reduction=draw(weighted((4, "sum"), (1, "max"), (1, "min"))) if operation in REDUCING else "sum",
        factor=draw(st.sampled_from(FACTORS if exact else (*FACTORS, *OTHER_FACTORS))),
        form=form,
    )


OF_LAYOUTS: tuple[Operation, ...] = ("all_reduce", "reduce", "scatter", "broadcast")
"""The operations that gloo takes tensors with strides for; it refuses them for others."""


@functools.cache
@st.composite
def strided(draw: st.DrawFn, *, mesh: Mesh, exact: bool) -> Collective:
    """As `collectives`, of tensors with strides; or `reduce` and `scatter`, with strides or without."""
    drawn = draw(collectives(mesh=mesh, exact=exact))
    operation = draw(st.sampled_from(OF_LAYOUTS))
    new = operation in ("reduce", "scatter")
    slices = mesh.shape[drawn.axis]
    sliced = operation in SLICED and drawn.operation not in SLICED
    return msgspec.structs.replace(
        drawn,
        operation=operation,
        width=drawn.width * slices if sliced else drawn.width,
        reduction=drawn.reduction if operation in REDUCING else "sum",
        memory=draw(weighted((1, msgspec.UNSET), (3, "strided"))) if new else "strided",
    )


LEARNED: tuple[Operation, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "scatter",
)
FUNCTIONAL: tuple[Operation, ...] = ("all_gather", "reduce_scatter", "all_to_all")
"""The functional collectives that torch 2.9 differentiates."""


@functools.cache
@st.composite
def learned(draw: st.DrawFn, *, mesh: Mesh, exact: bool) -> Collective:
    """Any operation that gradients go through.

    Whole numbers are only added: where two ranks have the greatest one, it has no gradient.
    """
    axis, operation = draw(st.integers(0, len(mesh.axes) - 1)), draw(st.sampled_from(LEARNED))
    slices = mesh.shape[axis] if operation in SLICED else 1
    nn = operation not in FUNCTIONAL or draw(st.booleans())
    chooses = operation in REDUCING and nn and not exact
    return Collective(
        operation=operation,
        width=slices * draw(st.sampled_from((1, 2, 3) if slices > 1 else (2, 1, 3, 4))),
        mesh=mesh.shape,
        axis=axis,
        reduction=draw(weighted((3, "sum"), (1, "max"), (1, "min"))) if chooses else "sum",
        factor=draw(st.sampled_from(FACTORS)),
        learned="nn" if nn else "functional",
    )


@functools.cache
@st.composite
def listed(draw: st.DrawFn, *, mesh: Mesh, exact: bool) -> Collective:
    """As `learned`: an `all_to_all` of uneven parts, or a functional `all_reduce` of one tensor or two."""
    drawn = draw(learned(mesh=mesh, exact=exact))
    if draw(st.booleans()):
        nn = draw(weighted((3, True), (1, False)))
        uneven = msgspec.structs.replace(
            drawn,
            operation="all_to_all",
            reduction="sum",
            learned="nn" if nn else "functional",
            form=draw(st.sampled_from(("list", "single"))) if nn else "single",
            parts="uneven",
            width=1,
        )
        return msgspec.structs.replace(uneven, width=uneven.slices * draw(st.sampled_from((1, 2))))
    form: Literal["single", "list"] = draw(weighted((1, "single"), (3, "list")))
    return msgspec.structs.replace(
        drawn,
        operation="all_reduce",
        reduction="sum" if exact else draw(weighted((2, "sum"), (1, "max"), (2, "min"))),
        learned="functional",
        form=form,
        width=draw(st.sampled_from((2, 4) if form == "list" else (2, 1, 3, 4))),
    )


placements = kept_whole
