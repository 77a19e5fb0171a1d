"""The paths of wrappers and of regions: what they draw, and that no other path draws it."""

from collections import Counter

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import mixed_precision
from difftest.cases.gathered import axes_apart, widened_alone
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Shard
from difftest.cases.parts import parts
from difftest.cases.resets import REPEATED, resets
from difftest.cases.wrapping import Sharding
from generators.cases import case_at, cases
from workers.training import tp_plan


@pytest.mark.parametrize(
    ("path", "index", "case"),
    [
        ("features", 3, "5de5fb6af4f5"),
        ("data_tensor", 3, "bce0b3968390"),
        ("collectives", 3, "51b10a2ca3b6"),
    ],
)
def test_the_cases_of_other_paths_are_what_they_were(path: str, index: int, case: str) -> None:
    assert case_at(7, index, paths=(path,)).id == case


@pytest.mark.long
def test_the_path_of_wrappers_draws_every_option_with_everything_else() -> None:
    drawn = [case_at(0, index, paths=("wrappers",), max_world_size=4) for index in range(150)]
    counts = Counter(name for case in drawn for own in parts(case).values() for name in own)
    options = {name.partition("=")[0] for name in counts if name.startswith("sharding ")}
    of_others = {"prefetched", "kept_between", "embeddings_resting", "ignored", "by_older_name"}
    of_others |= {"kept_in_step"}
    assert options == {f"sharding {name}" for name in {*Sharding.__struct_fields__} - of_others}
    assert min(counts["mixed_precision"], counts["distributed_checkpoint"]) > 10
    used = [feature for case in drawn for feature in case.training_features]
    assert 0 in [one.options["step"] for one in used if one.name == "distributed_checkpoint"]
    assert {one.options["backward"] for one in used if one.name == "forwards_first"} == {"once", "each"}
    assert counts["sharding wrapped=groups"] > 5
    assert {case.layout.mesh.names[-1] for case in drawn if case.sharded_by.second_mesh} == {"tp"}
    mixed = [one for case in drawn if (one := of(case, mixed_precision.Options))]
    assert {one.output for one in mixed} == {"policy", "loss", "everywhere"}
    again = [case for case in drawn if has(case, "mixed_precision") and case.training.checkpointing]
    assert all("dp_shard" in case.layout.mesh.names for case in again)
    assert len(again) > 5
    assert any(REPEATED in dict(resets(case)) for case in drawn)
    static = [case for case in drawn if case.replication.static_graph and case.training.accumulation > 1]
    assert any(case.replication.no_sync for case in static)


@quietly()
@given(cases(paths=("wrappers",)))
def test_a_case_of_wrappers_is_valid_and_sharded_over_dp_shard_alone(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    if case.sharded_by != Sharding():
        assert "dp_shard" in case.layout.mesh.names
    if case.data.regime == "exact":
        assert not case.training_features
    mixed = of(case, mixed_precision.Options)
    assert mixed is None or mixed.output != "everywhere" or widened_alone(case)


@quietly()
@given(cases(paths=("regions",)))
def test_activations_are_cut_only_where_styles_can_cut_them(case: Case) -> None:
    if case.cut_by.loss != "whole":
        assert case.training.loss == "cross_entropy"
        last = case.model.layers[-1]
        if isinstance(last, Linear) and not last.tied:
            name = f"{len(case.model.layers) - 1}.weight"
            assert case.layout.parameters[name][-1] == Shard(0)
    reason = tp_plan.refusal(case)
    assert reason is None or "sequence" not in reason.lower()


@quietly()
@given(cases(paths=("collective_layouts",)))
def test_a_collective_is_of_tensors_with_strides_or_one_that_other_paths_lack(case: Case) -> None:
    first = case.model.layers[0]
    assert isinstance(first, Collective)
    assert first.memory == "strided" or first.operation in ("reduce", "scatter")


@quietly()
@given(cases(paths=("several_meshes",)))
def test_every_layer_is_sharded_over_one_axis_and_the_batch_over_none(case: Case) -> None:
    assert Shard(0) not in case.layout.batch
    assert all(placements.count(Shard(0)) == 1 for placements in case.layout.parameters.values())
    axes = axes_apart(case)
    assert not axes or {*axes.values()} == {"dp_shard", "ep"}


def test_a_program_with_unused_results_has_a_loss_of_its_first_alone() -> None:
    drawn = [case_at(0, index, paths=("unused_results",)) for index in range(60)]
    assert {case.training.loss for case in drawn} == {"first_cotangent"}
    assert len({layer.operator for case in drawn for layer in case.model.operators.values()}) > 30
