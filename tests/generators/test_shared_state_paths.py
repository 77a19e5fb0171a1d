"""The paths of replicas, of states and of shards: what they draw, and that no other path draws it."""

from collections import Counter

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.layers import walk
from difftest.cases.layers.conv import Conv
from difftest.cases.layout import Replicate
from generators.cases import case_at, cases

OPTIONS = ("by_older_name", "embeddings_resting", "ignored", "kept_between", "prefetched")


@pytest.mark.long
def test_the_features_of_replicas_are_drawn_in_all_their_forms() -> None:
    drawn = [case_at(0, index, paths=("replicated",), max_world_size=4) for index in range(250)]
    used = [feature for case in drawn for feature in case.training_features]
    kinds = Counter(one.options["kind"] for one in used if one.name == "communication_hook")
    assert len(kinds) == 10
    assert min(Counter(one.name for one in used)[name] for name in ("local_steps", "uneven_inputs")) > 25
    sharded = [one.options for one in used if one.name == "sharded_optimizer"]
    for option in ("bucket_view", "reduced_bucket", "gathered_bucket", "accumulation_hook"):
        assert {options[option] for options in sharded} == {False, True}


@quietly()
@given(cases(paths=("replicated",)))
def test_a_case_of_replicas_is_valid_and_has_one_of_their_features(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    of_replicas = ("communication_hook", "local_steps", "uneven_inputs", "sharded_optimizer", "converted")
    assert has(case, *of_replicas)
    if has(case, "local_steps", "uneven_inputs"):
        assert case.training.accumulation == 1
        assert case.part_rows % case.world_size == 0


@pytest.mark.long
def test_states_go_through_every_layout_and_format() -> None:
    drawn = [case_at(0, index, paths=("states",), max_world_size=4) for index in range(150)]
    moved = [one for case in drawn for one in case.training_features if one.name == "moved_checkpoint"]
    assert {one.options["layout"] for one in moved} == {"whole", "columns", "grid", "sharded", "hybrid"}
    assert {one.options["files"] for one in moved} == {"files", "safetensors", "consolidated"}
    assert 0 in [one.options["step"] for one in moved]
    forms = [one for case in drawn for one in case.training_features if one.name == "state_dict_options"]
    assert "trained" in [one.options["form"] for one in forms]


def test_most_states_reach_their_checkpoint_on_every_backend() -> None:
    drawn = [case_at(0, index, paths=("states",), max_world_size=4) for index in range(40)]
    unclipped = [case for case in drawn if case.training.clip_norm is None]
    even = [case for case in unclipped if case.part_rows % case.layout.data_ranks == 0]
    kinds = [{type(layer) for _, layer in walk(case.model.layers)} for case in even]
    assert len(drawn) // 2 < sum(Conv not in those for those in kinds) < len(drawn)


@quietly()
@given(cases(paths=("shards",)))
def test_a_case_of_shards_has_an_option_that_no_other_path_draws(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert any(getattr(case.sharded_by, name) for name in OPTIONS)
    if ignored := case.sharded_by.ignored:
        assert {*case.layout.parameters[ignored]} == {Replicate()}
        assert case.training.clip_norm is None
