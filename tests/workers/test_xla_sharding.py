"""What is read of a tensor under SPMD: every rank's piece, from the shards of all devices."""

import numpy as np

from difftest.cases.layout import Mesh, Replicate, Shard
from difftest.judge.outcome import Sharded
from workers.xla import sharding

MESH = Mesh((("tp", 2),))
WHOLE = np.arange(3.0)
UNEVEN = [((slice(0, 2),), 0, WHOLE[:2]), ((slice(2, 3),), 0, WHOLE[2:])]


def test_pieces_are_cut_at_the_placements_whatever_the_shards_are() -> None:
    assert [piece.tolist() for piece in sharding.cut((3,), UNEVEN, (Shard(0),), MESH).values()] == [
        [0.0, 1.0],
        [2.0],
    ]
    assert [piece.tolist() for piece in sharding.cut((3,), UNEVEN, (Replicate(),), MESH).values()] == [
        [0.0, 1.0, 2.0]
    ] * 2


def test_a_copy_that_differs_is_the_piece_of_its_own_rank() -> None:
    copies = [(..., 0, WHOLE), (..., 1, WHOLE + 1)]
    assert [piece.tolist() for piece in sharding.cut((3,), copies, (Replicate(),), MESH).values()] == [
        [0.0, 1.0, 2.0],
        [1.0, 2.0, 3.0],
    ]


def test_a_tensor_of_another_shape_than_announced_has_pieces_that_do_not_fit() -> None:
    for announced in ((), (2, 3)):  # numpy would fail at the first, and repeat the values for the second
        copies = [(..., rank, WHOLE) for rank in range(2)]
        pieces = sharding.cut(announced, copies, (Replicate(),), MESH)
        assert [piece.shape for piece in pieces.values()] == [(3,), (3,)]
        read = Sharded(shape=announced, dtype="float32", placements=(Replicate(),), pieces=pieces)
        assert read.misfits(MESH)[0] == f"rank 0 holds (3,), expected {announced}"


def test_shards_with_more_dims_than_announced_are_pieces_that_do_not_fit() -> None:
    shards = [((slice(0, 1), slice(0, 3)), rank, WHOLE[np.newaxis]) for rank in range(2)]
    pieces = sharding.cut((3,), shards, (Replicate(),), MESH)
    assert [piece.shape for piece in pieces.values()] == [(1, 3), (1, 3)]
