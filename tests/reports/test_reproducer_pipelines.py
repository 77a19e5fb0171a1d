"""Scripts of pipelines: the stages, the schedule and what is shared, and which cases no script has."""

import ast
import dataclasses
from typing import Any

import msgspec
import pytest
from forked_scripts import run_forked
from installed_packages import skip_without
from samples import a_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate, Shard
from difftest.cases.pipelining import Pipeline
from difftest.judge.stage import Stage
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render

GRADIENT = Fault(kind="numbers", stage=Stage.BACKWARD, step=0, tensor="0.weight", tolerance=1e-3)
OUTPUT = Fault(kind="numbers", stage=Stage.FORWARD, step=0, tensor="output", tolerance=1e-3)
R = Replicate()
needs_torch = skip_without("torch")


def piped(*axes: tuple[str, int], training: Training | None = None, **options: object) -> Case:
    mesh = (("pp", 2), *axes)
    batch = tuple(Shard(0) if name.startswith("dp") else R for name, _ in mesh)
    case = a_case((Linear(inputs=4, outputs=4),) * 4, mesh=mesh, batch=batch, training=training or Training())
    given: dict[str, Any] = {"cuts": (1,), "microbatches": 4, **options}
    pipeline = Pipeline(**given)
    return msgspec.structs.replace(case, pipeline=pipeline)


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        (piped(schedule="1F1B"), ["start, end = [(0, 1), (1, 4)][number]", "get_schedule_class('1F1B')("]),
        (
            piped(schedule="ZBVZeroBubble", cuts=(1, 2, 3), scaled=True),
            ["own = [[0, 3], [1, 2]][", "scale_grads=True", "losses_of[-1](output, y) * 4"],
        ),
        (piped(("dp", 2)), ["DistributedDataParallel(part, process_group=mesh.get_group('dp'))"]),
        (
            piped(hands="two"),
            ["x = x + further[0] if further else x", "output * 0.5, output * 0.5"],
        ),
        (
            piped(hands="named"),
            ['x = x["output"] if self.number else x', 'return {"output": output}'],
        ),
        (piped(hands="passed_on"), ["further[0].flatten()[:0].sum()", "return output, x"]),
        (piped(hands="learned"), ["return output, bias.expand_as(output).contiguous()"]),
        (piped(hands="view"), ["output.unsqueeze(0).squeeze(0)"]),
        (piped(training=Training(accumulation=2)), ["for part in range(2):", "run(model, x, y, loss_of)"]),
    ],
)
def test_a_script_has_the_stages_of_its_case(case: Case, lines: list[str]) -> None:
    assert refusal(case, "torch_pipeline") is None
    text = render(case, "torch_pipeline", GRADIENT, "a fault", plain=True)
    ast.parse(text)
    assert [line for line in lines if line not in text] == []


def test_clipping_shards_and_keywords_of_stages_have_no_script() -> None:
    clipped = piped(training=Training(clip_norm=1.0))
    assert refusal(clipped, "torch_pipeline") == "no template clips over stages"
    assert "more than their inputs" in (refusal(piped(beside="rows"), "torch_pipeline") or "")
    assert "wraps them in DDP" in (refusal(piped(("dp_shard", 2)), "torch_pipeline") or "")
    assert "cannot write" in (refusal(piped(), "torch_ddp") or "")


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("case", "shown"),
    [
        (piped(schedule="1F1B", hands="view"), GRADIENT),
        (piped(("dp", 2), microbatches=2), GRADIENT),
        (piped(hands="two"), OUTPUT),
        (piped(schedule="1F1B", hands="passed_on"), GRADIENT),
        (piped(hands="learned"), GRADIENT),
    ],
    ids=["view", "replicated", "output", "passed on", "learned"],
)
def test_scripts_of_correct_pipelines_show_no_fault(case: Case, shown: Fault) -> None:
    done = run_forked(render(case, "torch_pipeline", shown, "healthy", plain=True))
    assert not done.shown
    assert "tolerance" in done.output, done.output


@pytest.mark.slow
@needs_torch
def test_a_script_shows_gradients_that_a_second_part_divides_again() -> None:
    case = piped(scaled=True, microbatches=2, training=Training(accumulation=2))
    done = run_forked(render(case, "torch_pipeline", GRADIENT, "alive", plain=True))
    assert done.shown, done.output


ZERO_BUBBLE: dict[str, Any] = {"schedule": "InterleavedZeroBubble", "cuts": (1, 2, 3), "microbatches": 2}
PASSED = Fault(
    kind="raises",
    stage=Stage.BACKWARD,
    step=0,
    failure="RuntimeError",
    needle="Trying to use a saved tensor that has been detached in-place",
)
NAMED = Fault(kind="raises", stage=Stage.FORWARD, step=0, failure="Exception")


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("hands", "shown"),
    [
        ("learned", dataclasses.replace(GRADIENT, kind="shape", tensor="1.bias")),
        ("passed_on", PASSED),
        ("named", NAMED),
    ],
)
def test_a_script_shows_what_fails_of_that_which_stages_hand_on(hands: str, shown: Fault) -> None:
    """The faults of `known/zero_bubble_*` that other ways of handing on do not have."""
    done = run_forked(render(piped(hands=hands, **ZERO_BUBBLE), "torch_pipeline", shown, "alive", plain=True))
    assert done.shown, done.output
