"""The path of steps that people write themselves: what it draws, and that no other path draws it."""

from collections import Counter

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.features.gradient_penalty import Options
from generators.cases import case_at, cases

FEATURES = (
    *("gradient_penalty", "forward_derivative", "parameter_hooks", "added_in_place", "empty_group"),
    "evaluated_before_update",
)
IN_PLACE = "changed_in_place"
OF_LOOPS = ("schedule", "zeroed_gradients", "clip_by_infinity_norm", "optimizer", "retried")


@pytest.mark.long
def test_every_feature_of_such_steps_is_drawn_on_every_kind_of_mesh() -> None:
    drawn = [case_at(0, index, paths=("own_steps",), max_world_size=4) for index in range(200)]
    counts = Counter(feature.name for case in drawn for feature in case.training_features)
    assert min(counts[name] for name in (*FEATURES, *OF_LOOPS, IN_PLACE)) > 3
    assert any(has(case, "schedule") and has(case, "tensor_rate") for case in drawn)
    assert counts["state_dict_options"] > 10
    penalized = [case for case in drawn if has(case, "gradient_penalty")]
    assert {case.layout.mesh.names for case in penalized} >= {("dp",), ("dp_shard",), ("tp",)}
    sharded = [case for case in penalized if case.layout.mesh.names[-1] == "dp_shard"]
    assert 0 < sum(case.sharded_by.kept_in_step for case in sharded) < len(sharded)
    assert any(case.cut_by.sequence for case in drawn)
    assert {case.staged for case in drawn} == {None}


@quietly()
@given(cases(paths=("own_steps",)))
def test_a_case_of_such_steps_is_valid_and_has_one_of_their_features(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert has(case, *FEATURES, *OF_LOOPS, IN_PLACE)
    if has(case, "gradient_penalty"):
        assert Options.drawn(case)
    if case.sharded_by.kept_in_step:
        assert "dp_shard" in case.layout.mesh.names
