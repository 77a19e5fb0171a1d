"""The first module at which a finding shows: on made-up traces, and on real modules with hooks."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from installed_packages import skip_without
from machines import backend
from samples import DEEP, NOISE, Floats, a_case, a_failure
from samples import candidate as right
from samples import oracle as truth

from difftest.campaign.campaign import Campaign
from difftest.campaign.localise import MODULE, VARIABLE, called, first_beyond, locate, place
from difftest.cases.case import Case
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Placements
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Outcome, Sharded, Trace
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus

NAMES = ("module 0", "module 1", "module 2")


def traced(
    trace: Trace, case: Case, wrong: Mapping[tuple[Stage, str], float], names: Sequence[str] = NAMES
) -> Trace:
    """The trace with ones of shape (4, 2) for every module, forwards and then backwards, off by `wrong`."""
    mesh, layout = case.layout.mesh, case.layout.batch
    keys = [*((Stage.FORWARD, name) for name in names), *((Stage.BACKWARD, name) for name in reversed(names))]
    whole = {key: np.ones((4, 2)) + wrong.get(key, 0.0) for key in keys}
    if trace.noise:
        mesh, layout = case.unsharded().layout.mesh, case.unsharded().layout.batch
    cut = {key: _sharded(value, layout, mesh.world_size) for key, value in whole.items()}
    floors = (
        {key: _sharded(np.full((4, 2), NOISE), layout, mesh.world_size) for key in keys}
        if trace.noise
        else {}
    )
    return dataclasses.replace(
        trace,
        steps=tuple({**cut, **step} for step in trace.steps),
        noise=tuple({**floors, **step} for step in trace.noise),
    )


def _sharded(whole: Floats, placements: Placements, ranks: int) -> Sharded:
    pieces = dict(enumerate(np.split(whole, ranks)))
    return Sharded(shape=whole.shape, dtype="float32", placements=placements, pieces=pieces)


def place_of(wrong: Mapping[tuple[Stage, str], float], stage: Stage) -> str:
    case = a_case(DEEP)
    expected, actual = traced(truth(case), case, {}), traced(right(case), case, wrong)
    return first_beyond(measure_run(case, "spmd", "xla", expected, actual), stage)


def test_the_first_module_beyond_rounding_is_named_with_the_last_that_agrees() -> None:
    wrong = {(Stage.FORWARD, "module 1"): 0.5, (Stage.FORWARD, "module 2"): 0.5}
    place = place_of(wrong, Stage.FORWARD)
    assert place.startswith(
        "forward, step 0: module 1 (Activation), after module 0 (Linear), which agrees: 8 / 8 elements"
    )
    assert place_of(wrong, Stage.BACKWARD) == "backward: no module is beyond rounding"


def test_gradients_are_compared_from_the_last_module_to_the_first() -> None:
    wrong = {(Stage.BACKWARD, "module 2"): 0.5, (Stage.BACKWARD, "module 0"): 0.5}
    assert place_of(wrong, Stage.BACKWARD).startswith(
        "backward, step 0: module 2 (Linear), the first of all: "
    )


def test_a_module_within_rounding_is_not_the_first() -> None:
    assert (
        place_of({(Stage.FORWARD, "module 0"): 2 * NOISE}, Stage.FORWARD)
        == "forward: no module is beyond rounding"
    )


def test_a_module_with_another_shape_is_counted_and_not_compared() -> None:
    case = a_case(DEEP)
    actual = traced(right(case), case, {(Stage.FORWARD, "module 1"): 0.5})
    narrow = dataclasses.replace(actual.steps[0][Stage.FORWARD, "module 0"], shape=(4, 1))
    steps = ({**actual.steps[0], (Stage.FORWARD, "module 0"): narrow},)
    run = measure_run(
        case, "spmd", "xla", traced(truth(case), case, {}), dataclasses.replace(actual, steps=steps)
    )
    assert first_beyond(run, Stage.FORWARD).endswith("; 1 of 3 could not be compared")


def test_modules_are_named_by_their_kind_or_by_their_layer() -> None:
    attention = Attention(width=4, heads=1, kv_heads=1)
    case = a_case(
        (Residual(layers=(attention, Linear(inputs=4, outputs=4))), Activation(function="relu")), sequence=4
    )
    assert called(case, (0, Stage.FORWARD, "module 0.1")) == "module 0.1 (Linear)"
    assert called(case, (0, Stage.FORWARD, "module 0.0.q part 1")) == "module 0.0.q part 1 (of Attention)"


def test_oracle_and_candidate_are_run_once_for_their_modules(tmp_path: Path) -> None:
    case, requests = a_case(DEEP), []

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        requests.append((name, options[VARIABLE]))
        return (
            traced(truth(case), case, {})
            if name == "oracle"
            else traced(right(case), case, {(Stage.FORWARD, "module 0"): 0.5})
        )

    def fails(_case: Case, name: str, _options: Mapping[str, str]) -> Outcome:
        return traced(truth(case), case, {}) if name == "oracle" else a_failure()

    campaign = Campaign(
        name="one", backends={"spmd": backend("xla")}, execute=execute, corpus=Corpus(tmp_path)
    )
    forward, backward = locate(campaign, case, "spmd")
    assert requests == [("oracle", "1"), ("spmd", "1")]
    assert forward.startswith("forward, step 0: module 0 (Linear), the first of all")
    assert backward == "backward: no module is beyond rounding"
    assert locate(dataclasses.replace(campaign, execute=fails), case, "spmd") == ()


NESTED = ("module 0.v", "module 0.o input", "module 0.o", "module 0")


def nested_place_of(wrong: Mapping[tuple[Stage, str], float], stage: Stage) -> str:
    """As `place_of`, of a layer that mixes what its `v` gives and ends with its `o`."""
    case = a_case(DEEP)
    expected, actual = (traced(run(case), case, off, NESTED) for run, off in ((truth, {}), (right, wrong)))
    return first_beyond(measure_run(case, "spmd", "xla", expected, actual), stage)


@pytest.mark.parametrize(
    ("wrong", "stage", "located"),
    [
        ("module 0.v", Stage.FORWARD, "module 0.v (of Linear)"),
        ("module 0.o input", Stage.FORWARD, "module 0 (Linear) before its o"),
        ("module 0.o", Stage.FORWARD, "module 0.o (of Linear)"),
        ("module 0", Stage.FORWARD, "module 0 (Linear)"),
        ("module 0", Stage.BACKWARD, "module 0 (Linear)"),
        ("module 0.o", Stage.BACKWARD, "module 0 (Linear) after its o"),
        ("module 0.o input", Stage.BACKWARD, "module 0.o (of Linear)"),
        ("module 0.v", Stage.BACKWARD, "module 0 (Linear) after its v"),
    ],
)
def test_code_of_a_module_between_the_modules_inside_is_the_modules(
    wrong: str, stage: Stage, located: str
) -> None:
    at = NESTED.index(wrong)
    later = NESTED[at:] if stage is Stage.FORWARD else NESTED[: at + 1]
    line = nested_place_of({(stage, name): 0.5 for name in later}, stage)
    assert place((line,)) == located


needs_torch = skip_without("torch")


@pytest.mark.slow
@needs_torch
def test_only_a_traced_run_records_modules_and_it_records_all() -> None:
    from workers.isolate import sandbox  # noqa: PLC0415

    case = a_case(DEEP)
    ordinary, traces = (sandbox.run(case, "torch_ddp", options=options) for options in ({}, {VARIABLE: "1"}))
    assert isinstance(ordinary, Trace)
    assert isinstance(traces, Trace)
    assert not [name for _, name in ordinary.steps[0] if name.startswith(MODULE)]
    kept = {key: tensor for key, tensor in traces.steps[0].items() if key[1].startswith(MODULE)}
    assert set(kept) == {(stage, name) for stage in (Stage.FORWARD, Stage.BACKWARD) for name in NAMES}
    expected = sandbox.run(case, "oracle", options={VARIABLE: "1"})
    run = measure_run(case, "torch_ddp", "torch", expected, traces)  # type: ignore[arg-type]
    assert {key for key in run.measured if key[2].startswith(MODULE)} == {(0, *key) for key in kept}
    assert first_beyond(run, Stage.FORWARD) == "forward: no module is beyond rounding"
    assert first_beyond(run, Stage.BACKWARD) == "backward: no module is beyond rounding", (
        "gradients are those of the whole batch's loss"
    )
    assert {key: value.pieces[0].tolist() for key, value in ordinary.steps[0].items()} == {
        key: value.pieces[0].tolist() for key, value in traces.steps[0].items() if key in ordinary.steps[0]
    }
