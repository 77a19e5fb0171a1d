"""Layouts: the part of a tensor on every rank, and the ranks that hold the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.cases.layout import (
    AXIS_NAMES,
    Layout,
    Mesh,
    Placements,
    Replicate,
    Shard,
    chunk,
    local_slices,
    replica_groups,
    replicated,
)

meshes = st.lists(
    st.tuples(st.sampled_from(AXIS_NAMES), st.integers(1, 4)),
    min_size=1,
    max_size=3,
    unique_by=lambda axis: axis[0],
).map(lambda axes: Mesh(tuple(axes)))
shapes = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple)


@st.composite
def placed_tensors(draw: st.DrawFn) -> tuple[tuple[int, ...], Placements, Mesh]:
    shape, mesh = draw(shapes), draw(meshes)
    placement = st.one_of(st.just(Replicate()), st.integers(0, len(shape) - 1).map(Shard))
    return shape, tuple(draw(placement) for _ in mesh.axes), mesh


@given(placed_tensors())
def test_one_rank_of_each_replica_group_hold_every_element_once(
    placed: tuple[tuple[int, ...], Placements, Mesh],
) -> None:
    shape, placements, mesh = placed
    held = np.zeros(shape, dtype=int)
    for ranks in replica_groups(placements, mesh):
        held[local_slices(shape, placements, mesh, ranks[0])] += 1
    assert (held == 1).all()


@given(placed_tensors())
def test_the_ranks_of_a_replica_group_hold_the_same(placed: tuple[tuple[int, ...], Placements, Mesh]) -> None:
    shape, placements, mesh = placed
    for ranks in replica_groups(placements, mesh):
        assert len({str(local_slices(shape, placements, mesh, rank)) for rank in ranks}) == 1


@given(placed_tensors())
def test_replica_groups_partition_the_ranks(placed: tuple[tuple[int, ...], Placements, Mesh]) -> None:
    _, placements, mesh = placed
    assert sorted(rank for ranks in replica_groups(placements, mesh) for rank in ranks) == list(
        range(mesh.world_size)
    )


@given(meshes)
def test_ranks_count_in_row_major_order(mesh: Mesh) -> None:
    assert [mesh.coordinate(rank) for rank in range(mesh.world_size)] == list(np.ndindex(mesh.shape))


@given(st.integers(0, 50), st.integers(1, 8))
def test_a_dim_is_sharded_as_torch_chunk_splits_it(size: int, parts: int) -> None:
    width = math.ceil(size / parts)
    pieces = [list(range(size))[chunk(size, parts, index)] for index in range(parts)]
    assert [i for piece in pieces for i in piece] == list(range(size))
    full = size // width if width else 0
    assert [len(piece) for piece in pieces] == ([width] * full + [size - width * full] + [0] * parts)[:parts]


def test_five_rows_on_four_ranks_leave_the_last_rank_empty() -> None:
    mesh = Mesh((("dp", 4),))
    held = [local_slices((5, 2), (Shard(0),), mesh, rank) for rank in range(4)]
    assert held == [
        (slice(0, 2), slice(0, 2)),
        (slice(2, 4), slice(0, 2)),
        (slice(4, 5), slice(0, 2)),
        (slice(5, 5), slice(0, 2)),
    ]


def test_two_axes_shard_one_dim_in_the_order_of_the_mesh() -> None:
    mesh = Mesh((("dp", 2), ("tp", 2)))
    assert [local_slices((8,), (Shard(0), Shard(0)), mesh, rank)[0].start for rank in range(4)] == [
        0,
        2,
        4,
        6,
    ]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((), "mesh has 0 axes; allowed: 1 to 4"),
        (tuple((name, 1) for name in AXIS_NAMES[:5]), "mesh has 5 axes; allowed: 1 to 4"),
        ((("tp", 2), ("tp", 2)), "mesh axes ['tp', 'tp'] repeat a name; each must be unique"),
        ((("rows", 2),), f"mesh axis 'rows' is unknown; allowed: {', '.join(AXIS_NAMES)}"),
        ((("tp", 0),), "mesh axis 'tp' has size 0; the least is 1"),
        ((("dp", 9), ("tp", 8)), "mesh has 72 ranks; the most is 64"),
    ],
)
def test_the_error_for_an_invalid_mesh_says_what_is_allowed(
    axes: tuple[tuple[str, int], ...], message: str
) -> None:
    with pytest.raises(ValueError, match="mesh") as caught:
        Mesh(axes)
    assert str(caught.value) == message


def test_a_negative_shard_dim_is_refused() -> None:
    with pytest.raises(ValueError, match="shard dim is -1; the least is 0"):
        Shard(-1)


@pytest.mark.parametrize(
    ("batch", "parameter"), [((), (Replicate(),)), ((Replicate(),), (Shard(0), Shard(1)))]
)
def test_every_tensor_needs_a_placement_on_every_axis(batch: Placements, parameter: Placements) -> None:
    with pytest.raises(ValueError, match=r"has [02] placements; the mesh tp=2 needs 1"):
        Layout(mesh=Mesh((("tp", 2),)), batch=batch, parameters={"0.weight": parameter})


def test_batch_axes_are_those_that_shard_the_rows() -> None:
    mesh = Mesh((("dp", 2), ("cp", 2), ("tp", 2)))
    assert Layout(mesh=mesh, batch=(Shard(0), Shard(1), Replicate()), parameters={}).batch_axes == ("dp",)


def test_replicated_is_whole_on_every_axis() -> None:
    assert replicated(Mesh((("dp", 2), ("tp", 1)))) == (Replicate(), Replicate())


def test_a_layout_has_a_readable_text() -> None:
    assert (str(Mesh((("dp", 2), ("tp", 4)))), str(Shard(1)), str(Replicate())) == ("dp=2 x tp=4", "S1", "R")
