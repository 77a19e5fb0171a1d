"""Scripts of twins: torch alone, compared with numbers that a reference of another make computed."""

import ast
import dataclasses
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from forked_scripts import run_forked
from installed_packages import needs
from sample_findings import FINDING
from samples import a_case
from test_reproducer import imported

from difftest.cases.case import Case, Training
from difftest.cases.options import Feature
from difftest.cases.twins import twin
from difftest.ground.errors import UsageError
from difftest.jobs.filing.block_sources import block_texts
from difftest.jobs.filing.reproduction import Reproduction, reproduce
from difftest.jobs.filing.right_numbers import right_numbers
from difftest.judge.comparator import divergences_in_order
from difftest.judge.measured import Key, MeasuredRun, measure_run
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage
from generators.cases import case_at
from reports.reproducer.fault import Fault, Right
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render
from workers import backends
from workers.isolate import sandbox

OF_TORCH = {"torch", "numpy", "hashlib", "math", "io", "types"}
STAGES = (Stage.FORWARD, Stage.BACKWARD, Stage.UPDATE)
RELATIVE = 1e-9
SEED, CASES = 31, 2
RIGHT = Right(places=(0, 3), numbers=(0.5, -0.25), maker="somebody")
TENSOR_RATE = Feature(name="tensor_rate", options={})


def test_a_script_of_a_twin_needs_torch_and_numpy_alone_and_has_all_digits_of_its_numbers() -> None:
    for backend, stage in (("torch_eager", Stage.UPDATE), ("definitions", Stage.BACKWARD)):
        text = render(twin(a_case()), backend, a_fault(stage, "0.weight", 1e-12, RIGHT), "title")
        assert {name.partition(".")[0] for name in imported(ast.parse(text))} <= OF_TORCH
        assert "places = [0, 3]" in text
        assert "torch.tensor([0.5, -0.25], dtype=torch.float64)" in text
        assert "somebody" in text
        assert "float32" not in text


def test_references_have_scripts_of_twins_and_other_backends_have_none() -> None:
    case = a_case()
    assert "no template for backend 'torch_eager'" in (refusal(case, "torch_eager") or "")
    there = "definitions, torch_eager"
    assert f"a twin on backend 'torch_ddp'; there are: {there}" in (refusal(twin(case), "torch_ddp") or "")
    assert refusal(twin(case), "definitions") is None
    with pytest.raises(UsageError, match="right numbers"):
        render(twin(case), "definitions", a_fault(Stage.UPDATE, "0.weight", 1e-12, None), "title")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*(pytest.param(name, marks=pytest.mark.nightly) for name in ("features", "blocks")), "operators"]
)
def test_a_script_of_a_twin_computes_what_torch_does_and_notices_another_number(path: str) -> None:
    needs("torch")
    needs("jax")
    tried = 0
    for run, truth in runs(path):
        for at in one_of_each_stage(run):
            right = right_numbers(run, at)
            size = max(1e-300, float(np.abs(run.truth(at)[0]).max()))
            for off in (0.0, 10 * RELATIVE * size):
                numbers = tuple(number + off for number in right.numbers)
                shown = a_fault(at[1], at[2], RELATIVE * size, dataclasses.replace(right, numbers=numbers))
                facts = truth.events.facts.items()
                results = {name: fact.dtype for name, fact in facts if fact.requires_grad}
                shown = dataclasses.replace(shown, step=at[0], results=results)
                text = render(run.case, run.backend, shown, "title", block_texts=block_texts(run.case))
                done = run_forked(text)
                assert done.shown == bool(off), (run.case.id, at, done.output)
                tried += 1
    assert tried >= CASES


@pytest.mark.slow
def test_a_real_fault_of_torch_gets_a_script_that_shows_it() -> None:
    needs("torch")
    training = Training(optimizer="adamw", steps=2)
    made = reproduced(twin(a_case(training=training, features=(TENSOR_RATE,))), "torch_eager")
    assert made.reason is None
    assert made.script is not None
    assert "lr=torch.tensor(" in made.script.text
    assert "BUG REPRODUCED" in made.script.output


def a_fault(stage: Stage, tensor: str, tolerance: float, right: Right | None) -> Fault:
    return Fault(kind="numbers", stage=stage, step=0, tensor=tensor, tolerance=tolerance, right=right)


def runs(path: str) -> Iterator[tuple[MeasuredRun, Trace]]:
    """The first twins of a path on each reference that has a script of them."""
    left = dict.fromkeys(backends.references(), CASES)
    for index in range(100):
        case = twin(case_at(SEED, index, paths=(path,), max_world_size=2))
        for name, reference in backends.references().items():
            if left[name] and not reference.unsupported(case) and not refusal(case, name):
                left[name] -= 1
                truth = sandbox.run(case, "oracle", options={"DIFFTEST_SAMPLES": "1"})
                actual = sandbox.run(case, name)
                assert isinstance(truth, Trace), truth
                yield measure_run(case, name, reference.SIDE, truth, actual, exact=False), truth


def one_of_each_stage(run: MeasuredRun) -> Iterator[Key]:
    """The last tensor with numbers of each stage."""
    for stage in STAGES:
        there = [at for at in run.measured if at[1] is stage and run.truth(at)[0].size]
        yield from [at for at in there if np.isfinite(run.truth(at)[0]).all()][-1:]


def reproduced(case: Case, backend: str) -> Reproduction:
    """The script of the first finding of a twin."""
    truth, actual = sandbox.run(case, "oracle"), sandbox.run(case, backend)
    assert isinstance(truth, Trace), truth
    run = measure_run(case, backend, backends.load(backend).SIDE, truth, actual, exact=False)
    first = divergences_in_order(run)[0]
    finding = msgspec.structs.replace(FINDING, fingerprint=first.fingerprint, divergence=first)
    return reproduce(finding, case)
