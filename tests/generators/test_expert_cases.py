"""The path of experts: what it draws, and that ranks with experts take nearly all of it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from quiet_draws import quietly
from samples import experts_case

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.routed_experts import RoutedExperts
from difftest.cases.parts import parts
from difftest.cases.routed import routed
from generators.cases import case_at, cases
from workers.backends import torch_experts


@quietly()
@given(cases(paths=("learned_collectives",)))
def test_gradients_go_through_a_collective_whose_choices_are_unambiguous(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    (between,) = (one for one in case.model.layers if isinstance(one, Collective))
    assert between.learned in {"nn", "functional", "plain"}
    assert between.reduction in {"sum", "avg"} or (case.data.regime, case.dtype) == ("normal", "float32")
    if case.data.regime == "exact":
        assert inexact(case) is None


@quietly()
@given(cases(paths=("experts",)))
def test_a_case_of_experts_has_some_on_every_rank_and_is_exact_where_it_says_so(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert routed(case.model)
    assert case.part_rows % case.layout.data_ranks == 0
    if case.data.regime == "exact":
        assert inexact(case) is None
    sizes = dict(case.layout.mesh.axes)
    for name in routed(case.model):
        assert case.model.parameters()[name][0] >= sizes.get("ep", 1)


@pytest.mark.long
def test_every_way_of_rows_and_every_mesh_is_drawn() -> None:
    drawn = [case_at(0, index, paths=("experts",), max_world_size=8) for index in range(200)]
    counts = Counter(name for case in drawn for own in parts(case).values() for name in own)
    assert min(counts[f"dispatch exchange={way}"] for way in ("nn", "padded", "gathered")) > 20
    assert min(counts[f"dispatch product={way}"] for way in ("grouped", "batched")) > 20
    assert counts["dispatch exchange=whole"] > 5
    assert {case.layout.mesh.names for case in drawn} == set(torch_experts.MESHES)
    layers = [one for case in drawn for _, one in walk(case.model.layers) if isinstance(one, RoutedExperts)]
    assert {one.capacity for one in layers} == {None, 1, 2, 3}
    assert {one.lean for one in layers} == {0.0, 0.25, 1.0}
    assert sum(case.data.regime == "exact" for case in drawn) > 30
    refused = Counter(torch_experts.unsupported(case) for case in drawn)
    assert refused[None] > 160


def test_the_batch_names_different_experts_of_a_row_and_leans_to_the_first() -> None:
    fed = numbers.batch(experts_case(experts=6, top=3, lean=0.0), 0).extras["mask 1"]
    assert fed.shape == (4, 3)
    assert all(len({*row}) == 3 for row in fed)
    assert {*np.unique(fed)} <= {*range(6)}
    leaning = numbers.batch(experts_case(experts=6, top=3, lean=1.0), 0).extras["mask 1"]
    assert {*np.unique(leaning)} == {0, 1, 2}


def test_only_experts_on_the_ranks_of_their_axis_are_expert_parallel() -> None:
    assert torch_experts.unsupported(experts_case()) is None
    assert "needs experts" in (torch_experts.unsupported(case_at(0, 0, paths=("data_parallel",))) or "")
