"""Stages of a pipeline as data: what is valid, who has a stage, and how reduction keeps them valid."""

import json
from typing import Any

import msgspec
import pytest
from samples import a_case

from difftest.cases.case import Case
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate
from difftest.cases.parts import parts
from difftest.cases.pipelining import Pipeline
from difftest.cases.resets import option_resets
from difftest.findings.facts import facts
from difftest.reduce.measure import measure
from difftest.reduce.simplifications import simplifications
from difftest.reduce.simplifications.layers import fewer_layers
from difftest.reduce.simplifications.mesh import one_device, smaller_axes
from workers import backends

LAYERS = (Linear(inputs=4, outputs=4),) * 6
R = Replicate()


def piped(ranks: int = 2, **options: object) -> Case:
    case = a_case(LAYERS, mesh=(("pp", ranks),), batch=(R,))
    given: dict[str, Any] = {"cuts": (3,), "microbatches": 4, **options}
    return msgspec.structs.replace(case, pipeline=Pipeline(**given))


def test_a_case_without_stages_has_the_text_that_it_had() -> None:
    assert "pipeline" not in json.loads(a_case().to_json())


def test_a_case_with_stages_is_read_again_and_named_by_them() -> None:
    case = piped(schedule="1F1B", hands="two", scaled=True)
    assert Case.from_json(case.to_json()) == case
    assert parts(case)["options"] == ("pipeline 1F1B", "pipeline hands=two", "pipeline scaled=True")
    assert "pipeline.schedule=1F1B" in facts(case)["wrapping"]
    assert {name for name, _ in option_resets(case)} == {
        "pipeline.schedule=1F1B",
        "pipeline.hands=two",
        "pipeline.scaled=True",
    }


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        (2, {"cuts": (6,)}, "begins with layer 6; the model has 6 layers"),
        (3, {}, "GPipe has one stage a rank; there are 2 stages and 3 ranks"),
        (2, {"schedule": "DualPipeV"}, "DualPipeV has two stages a rank"),
        (2, {"schedule": "LoopedBFS", "cuts": (1, 2)}, "2 ranks do not share 3 stages evenly"),
        (2, {"cuts": (3, 2)}, "allowed: ascending numbers of layers"),
        (2, {"microbatches": 0}, "microbatches is 0; allowed: 1 to 64"),
    ],
)
def test_stages_that_cannot_be_are_refused(ranks: int, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        piped(ranks, **options)


def test_a_pipeline_needs_its_axis() -> None:
    with pytest.raises(ValueError, match="has no axis pp"):
        msgspec.structs.replace(a_case(mesh=(("dp", 2),)), pipeline=Pipeline())


def test_folded_schedules_turn_round_at_the_last_rank() -> None:
    looped, folded = Pipeline(schedule="LoopedBFS"), Pipeline(schedule="ZBVZeroBubble")
    assert [looped.rank_of(stage, 2) for stage in range(4)] == [0, 1, 0, 1]
    assert [folded.rank_of(stage, 2) for stage in range(4)] == [0, 1, 1, 0]


def test_stages_follow_the_layers_and_the_ranks_that_are_left() -> None:
    case = piped(cuts=(5,))
    fewer = [simpler for _, simpler in fewer_layers(case)]
    assert {simpler.staged.cuts for simpler in fewer if simpler.staged} <= {(4,), (3,), (2,), (1,)}
    four = piped(4, cuts=(1, 2, 3))
    assert next((c.world_size, c.staged and c.staged.cuts) for _, c in smaller_axes(four)) == (3, (1, 2))
    assert [c.world_size for _, c in one_device(case)] == [1]


def test_every_candidate_is_valid_and_simpler() -> None:
    rich = piped(schedule="InterleavedZeroBubble", cuts=(1, 2, 4), hands="two", scaled=True, microbatches=6)
    tried = [pair for each in simplifications() for pair in each(rich)]
    words = {word for word, _ in tried}
    assert {"4 stages", "6 microbatches", "pipeline hands=two", "pipeline scaled=True"} <= words
    for word, simpler in tried:
        assert Case.from_json(simpler.to_json()) == simpler
        assert measure(simpler) < measure(rich), word


def test_only_the_backend_of_pipelines_takes_stages() -> None:
    case = piped()
    takers = {name for name, one in backends.candidates().items() if not one.unsupported(case)}
    assert takers == {"torch_pipeline"}
    assert "stages of a pipeline" in (backends.load("torch_ddp").unsupported(case) or "")
    assert "needs the stages" in (backends.load("torch_pipeline").unsupported(a_case()) or "")


@pytest.mark.parametrize(("cuts", "refused"), [((3,), False), ((1,), False)])
def test_a_rank_needs_a_parameter(cuts: tuple[int, ...], refused: bool) -> None:
    assert bool(backends.load("torch_pipeline").unsupported(piped(cuts=cuts))) is refused
