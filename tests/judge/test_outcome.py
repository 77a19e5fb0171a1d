"""Traces: assembling tensors from pieces, and pieces that do not fit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import a_case, candidate, of_rank, tensor_parallel_case, train

from difftest.cases.layout import Replicate, Shard
from difftest.judge.stage import Stage

WEIGHT = (Stage.UPDATE, "0.weight")
CASE = tensor_parallel_case()
MESH = CASE.layout.mesh


def test_the_whole_tensor_is_assembled_from_its_pieces() -> None:
    case = a_case(
        mesh=(("dp", 2), ("tp", 2)),
        sharded={"0.weight": (Shard(1), Shard(0)), "0.bias": (Replicate(), Shard(0))},
    )
    whole = train(case)[0]
    for key, tensor in candidate(case).steps[0].items():
        assert tensor.misfits(case.layout.mesh) == []
        np.testing.assert_allclose(tensor.full(case.layout.mesh), whole[key], rtol=1e-6)


def test_uneven_pieces_have_the_shapes_of_torch_chunk() -> None:
    pieces = candidate(CASE).steps[0][WEIGHT].pieces
    assert [pieces[rank].shape for rank in range(2)] == [(2, 4), (1, 4)]


def test_a_missing_and_a_misshapen_piece_do_not_fit() -> None:
    tensor = candidate(CASE).steps[0][WEIGHT]
    assert dataclasses.replace(tensor, pieces={0: tensor.pieces[0]}).misfits(MESH) == [
        "rank 1 holds None, expected (1, 4)"
    ]
    swapped = dataclasses.replace(tensor, pieces={0: tensor.pieces[1], 1: tensor.pieces[1]})
    assert swapped.misfits(MESH) == ["rank 0 holds (1, 4), expected (2, 4)"]


@pytest.mark.parametrize("placements", [(), (Shard(2),), (Shard(0), Shard(0))])
def test_impossible_placements_do_not_fit(placements: tuple[Shard, ...]) -> None:
    tensor = dataclasses.replace(candidate(CASE).steps[0][WEIGHT], placements=placements)
    words = ", ".join(map(str, placements))
    assert tensor.misfits(MESH) == [f"placements ({words}) do not fit 2 dims on the mesh tp=2"]


@given(st.permutations(range(4)))
def test_traces_of_several_processes_merge_in_any_order(order: list[int]) -> None:
    case = a_case(mesh=(("dp", 4),))
    whole = candidate(case)
    parts = [of_rank(whole, rank) for rank in order]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    for key, tensor in merged.steps[0].items():
        assert tensor.misfits(case.layout.mesh) == []
        np.testing.assert_array_equal(
            tensor.full(case.layout.mesh), whole.steps[0][key].full(case.layout.mesh)
        )


def test_a_tensor_that_one_process_lacks_is_kept_when_traces_merge() -> None:
    whole = candidate(CASE)
    without = dataclasses.replace(
        whole, steps=({key: t for key, t in whole.steps[0].items() if key != WEIGHT},)
    )
    assert WEIGHT in without.merged(whole).steps[0]
    assert WEIGHT in whole.merged(without).steps[0]
