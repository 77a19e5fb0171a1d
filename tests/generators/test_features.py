"""Features of training: how they are drawn, what a case may have, and cases without them."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from quiet_draws import quietly
from samples import a_case

from difftest.cases import features
from difftest.cases.case import Case, Training
from difftest.cases.feature import declared
from difftest.cases.options import Feature
from difftest.cases.resets import option_resets
from difftest.findings.facts import facts
from difftest.ground import plugins
from difftest.reduce.measure import measure
from difftest.reduce.simplifications.options import fewer_training_features
from generators.cases import cases
from reports.reproducer.refusal import refusal
from workers.backends import torchax

PATH = "features"
SCHEDULE = Feature(name="schedule", options={"kind": "cosine", "factor": 0.5})
EVALUATION = Feature(name="evaluation")


def with_features(*used: Feature) -> Case:
    return msgspec.structs.replace(a_case(training=Training(steps=3)), features=used)


def test_every_feature_is_drawn_done_and_documented() -> None:
    more = {*plugins.names("workers.training.features")}
    assert more < {*features.names()}
    for name in {*features.names()} - more:
        assert {"arguments", "zero_arguments"} & set(vars(declared(name))), f"{name} does nothing"
    page = (Path(__file__).parents[2] / "docs" / "features.md").read_text()
    assert [name for name in features.names() if f"| `{name}` |" not in page] == []


@pytest.mark.long
@quietly()
@given(cases(paths=(PATH,)))
def test_a_case_of_the_path_has_features_that_fit_it(case: Case) -> None:
    names = [feature.name for feature in case.training_features]
    assert 1 <= len(set(names)) == len(names) <= 2
    bare = msgspec.structs.replace(case, features=())
    assert all(declared(name).drawn(bare) is not None for name in names)
    assert Case.from_json(case.to_json()) == case


def test_other_paths_have_no_features() -> None:
    loaded = {name: plugins.load("generators.paths", name) for name in plugins.names("generators.paths")}
    assert [name for name, path in loaded.items() if path.HAS_FEATURES] == [PATH]


def test_a_case_without_features_has_the_text_that_it_had() -> None:
    assert "features" not in json.loads(a_case().to_json())
    assert with_features() == a_case(training=Training(steps=3))


@pytest.mark.parametrize(
    ("used", "message"),
    [
        (({"name": "schedule"}, {"name": "schedule"}), "each is allowed once"),
        (({"name": "../schedule"},), "unknown feature '../schedule'; did you mean 'schedule'"),
        (({"name": "schedule", "options": {"kind": "step", "factor": 1e9}},), "factor: a number above 0, to"),
        (({"name": "schedule", "options": {"kind": "stairs", "factor": 0.5}},), "'stairs'.*'step'"),
        (({"name": "schedule", "options": {"kind": "step"}},), "missing required field `factor`"),
        (({"name": "schedule", "options": {"kind": "step", "factor": 0.5, "more": 1}},), "field `more`"),
        (({"name": "save_and_load", "options": {"step": "id()"}},), "step: a whole number from 0 to 199"),
        (({"name": "save_and_load", "options": {"step": True}},), "step: a whole number from 0 to 199"),
        (({"name": "implementation", "options": {"kind": "x=id(), y"}},), "'foreach' or 'fused'"),
        (({"name": "frozen", "options": {"name": "0.weight\n"}},), "the name of a parameter"),
    ],
)
def test_features_that_cannot_be_are_refused(used: tuple[dict[str, object], ...], message: str) -> None:
    text = json.loads(a_case().to_json()) | {"features": used}
    with pytest.raises(Exception, match=message):
        Case.from_json(json.dumps(text))


def test_a_finding_can_name_the_feature_and_a_reduction_leaves_it_out() -> None:
    case = with_features(SCHEDULE, EVALUATION)
    resets = dict(option_resets(case))
    assert resets["feature.schedule"] == with_features(EVALUATION)
    assert resets["feature.evaluation"] == with_features(SCHEDULE)
    assert facts(case)["features"] == " schedule  schedule.kind=cosine  schedule.factor=0.5  evaluation "
    simpler = [reduced for _, reduced in fewer_training_features(case)]
    assert simpler == [with_features(EVALUATION), with_features(SCHEDULE)]
    assert all(measure(reduced) < measure(case) for reduced in simpler)


def test_what_cannot_have_features_says_so() -> None:
    case = with_features(Feature(name="distributed_checkpoint", options={"step": 1, "resharded": True}))
    assert "the feature distributed_checkpoint" in (refusal(case, "torch_ddp") or "")
    assert "torch's own loop" in (torchax.unsupported(case) or "")
