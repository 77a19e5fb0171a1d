"""Operands cut in two orders or shared, collectives in lists and of uneven parts, and meshes of four axes."""

from collections import Counter

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from difftest.cases.layout import Partial, Shard, has_shares
from difftest.cases.parts import parts
from difftest.cases.reversed_cuts import cut_in_reverse
from difftest.ground.errors import UsageError
from generators.cases import case_at, cases
from reports.reproducer.refusal import refusal
from workers.backends import load


def test_a_program_of_strided_operands_has_one_that_two_axes_cut_in_the_other_order() -> None:
    drawn = [case_at(0, index, paths=("strided_operands",)) for index in range(60)]
    reversed_ = [cut_in_reverse(case) for case in drawn]
    assert all(reversed_)
    assert {case.spelling.strided for case in drawn if case.spelling} == {True}
    in_two_orders = [
        case
        for case, own in zip(drawn, reversed_, strict=True)
        if any(
            placed == (Shard(0), Shard(0)) and name not in own
            for name, placed in case.layout.parameters.items()
        )
    ]
    assert in_two_orders


def test_no_script_has_operands_cut_in_the_other_order() -> None:
    case = case_at(0, 0, paths=("strided_operands",), max_world_size=4)
    assert "in the reverse of mesh order" in (refusal(case, "torch_dtensor") or "")


def test_on_few_ranks_one_axis_of_strided_operands_has_one() -> None:
    case = case_at(0, 0, paths=("strided_operands",), max_world_size=2)
    assert case.layout.mesh.shape == (2, 1)


def test_a_program_of_partial_operands_has_one_over_the_first_axis() -> None:
    drawn = [case_at(0, index, paths=("partial_operands",), max_world_size=4) for index in range(60)]
    counts = Counter[str]()
    of_sums, of_norms = [case for index, case in enumerate(drawn) if index % 5 < 4], drawn[4::5]
    for case in of_sums:
        shared = [placed for placed in case.layout.parameters.values() if has_shares(placed)]
        assert case.world_size > 1
        assert not any(has_shares(placed[1:]) for placed in shared)
        own = [placed[0] for placed in shared if placed[0] != Partial()] or [Partial()]
        assert len(own) == 1
        assert len(shared) == 1 or own != [Partial()]
        counts.update(str(one) for one in own)
    assert counts["P"] == sum(counts.values()) // 2
    assert counts["P(avg)"] > counts["P(max)"] > 0 < counts["P(min)"]
    assert len({case.model.operators["0"].operator for case in of_sums}) == len(of_sums)
    assert {case.model.operators["0"].operator for case in of_norms} == {"linalg.vector_norm"}
    assert {case.layout.parameters["0.input"][0] for case in of_norms} == {Shard(0)}
    assert any(-2.0 in case.model.operators["1"].arguments for case in of_norms)


@quietly(40)
@given(cases(paths=("listed_collectives",), max_world_size=4))
def test_a_listed_collective_has_uneven_parts_or_is_a_functional_sum(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    (layer,) = (layer for layer in case.model.layers if isinstance(layer, Collective))
    assert (layer.parts == "uneven") == (layer.operation == "all_to_all")
    assert layer.learned == "functional" or layer.operation == "all_to_all"
    sent = [layer.sent(rank) for rank in range(layer.ranks)]
    assert [layer.received(rank) for rank in range(layer.ranks)] == list(zip(*sent, strict=True))
    assert {sum(one) for one in (*sent, *zip(*sent, strict=True))} == {
        layer.width
    } or layer.operation == "all_reduce"


def test_compositions_have_four_axes_and_run_as_pipelines() -> None:
    drawn = [case_at(0, index, paths=("compositions",), max_world_size=8) for index in range(12)]
    names = ("pp", "dp_replicate", "dp_shard", "tp")
    assert {case.layout.mesh.names for case in drawn} == {names}
    assert all("mesh pp x dp_replicate x dp_shard x tp" in parts(case)["options"] for case in drawn)
    backend = load("torch_pipeline")
    assert sum(backend.unsupported(case) is None for case in drawn) > 8


@pytest.mark.parametrize("ranks", [2, 4])
def test_compositions_of_few_ranks_have_the_same_axes(ranks: int) -> None:
    mesh = case_at(0, 0, paths=("compositions",), max_world_size=ranks).layout.mesh
    assert (len(mesh.axes), mesh.world_size) == (4, ranks)


def test_compositions_need_two_ranks() -> None:
    with pytest.raises(UsageError, match="max_world_size is 1; allowed for the path compositions: 2 to 64"):
        case_at(0, 0, paths=("compositions",), max_world_size=1)
