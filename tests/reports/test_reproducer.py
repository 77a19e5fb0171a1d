"""Reproducer scripts as they are rendered for generated cases and for small ones."""

import ast
import dataclasses
import functools
import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sample_findings import FINDING, changed
from sample_scripts import FAULTS, plan
from samples import a_case, experts_case, pipeline_case, tensor_parallel_case

from difftest.cases import draws, numbers
from difftest.cases.case import Case, Data, DType, Regime, Training
from difftest.cases.options import Replication, Start
from difftest.commands.reproducer import command
from difftest.jobs.filing.recompilation import recompile
from difftest.jobs.filing.script_runs import run_script
from difftest.judge import checks
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus
from difftest.records.script_ending import ScriptEnding
from generators.cases import case_at
from reports.reproducer import spelling, templates
from reports.reproducer.fault import Fault, any_numbers
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import gates, render
from workers.backends import candidates
from workers.isolate import sandbox

CASES = 25
LEAST_COMPARED = 10
MOST_LINES = 180
LONGER = {"torch_experts": 10}
"""Further lines, for rows that are exchanged."""

PATHS = {
    "torch_cp_gathered": ("context_parallel",),
    "torch_experts": ("experts",),
    "torch_pipeline": ("pipelines",),
}
"""The paths of backends that take cases of none that is usual."""

ORDINARY = [name for name in templates.backends() if not templates.declares(name, "of_twins")]
"""The backends that run what is no twin; `test_reproducer_twins.py` has the others."""

OURS = {"difftest", "generators", "workers", "reports"}


@functools.cache
def eligible(backend: str) -> tuple[tuple[int, Case], ...]:
    """Return the generated cases, with their indices, that the backend supports and a script can express."""
    module = candidates((backend,))[backend]
    drawn = [(index, case_at(0, index, paths=PATHS.get(backend))) for index in range(CASES)]
    cases = tuple(
        (index, case)
        for index, case in drawn
        if module.unsupported(case) is None
        and refusal(case, backend) is None
        and "0.weight" in case.model.parameters()
    )
    assert cases, f"no generated case has a script for {backend}"
    return cases


def scripts(
    backend: str, shown: Fault, *, plain: bool | None = False, every: int = 1
) -> Iterator[tuple[Case, str]]:
    """Yield the script of `every` so many eligible cases; `plain=None` makes every other one plain.

    There is at least one. Which ones depends on the fault, so that all faults together have all cases.
    """
    title = 'a title with """ and \\ and \n a line'
    cases = eligible(backend)
    every = min(every, len(cases))
    for index, case in cases[FAULTS.index(shown) % every :: every]:
        odd = index % 2 == 1
        yield case, render(case, backend, shown, title, plan(case), plain=odd if plain is None else plain)


def functions(script: str) -> dict[str, Any]:
    """Return the script's functions that draw numbers, to run without torch: tensors stay arrays."""
    wanted: list[ast.stmt] = [
        node
        for node in ast.parse(script).body
        if isinstance(node, ast.FunctionDef) and node.name in {"draw", "weight", "batch"}
    ]
    space: dict[str, Any] = {
        "np": np,
        "hashlib": importlib.import_module("hashlib"),
        "torch": SimpleNamespace(from_numpy=lambda a: a),
    }
    exec(compile(ast.Module(wanted, []), "script", "exec"), space)  # noqa: S102  our own script
    return space


def test_every_template_is_named_after_a_backend() -> None:
    names = templates.backends()
    assert set(names) <= set(candidates(names))


@pytest.mark.long
@pytest.mark.parametrize("backend", ORDINARY)
@pytest.mark.parametrize(
    "shown", FAULTS, ids=lambda shown: f"{shown.kind}-{shown.stage}-{shown.tensor or shown.failure}"
)
def test_the_scripts_of_generated_cases_stand_alone(backend: str, shown: Fault) -> None:
    for case, script in scripts(backend, shown, plain=None, every=6):
        tree = ast.parse(script)
        compile(tree, case.id, "exec")
        assert not OURS & {name.partition(".")[0] for name in imported(tree)}
        assert script.count("\n") <= MOST_LINES + LONGER.get(backend, 0)
        named = ScriptEnding.of(script)
        if not shown.fails:
            assert named is None
            assert "BUG REPRODUCED" in script
        else:
            hangs = shown.kind == "hang"
            assert named == (
                ScriptEnding("", hangs=True) if hangs else ScriptEnding(shown.failure, shown.needle)
            )
            assert all(map(goes_on, ast.walk(tree))) or "GATE.abort()" in script, "an exception goes through"


def goes_on(node: ast.AST) -> bool:
    """Whether an exception goes on from there: a handler raises it again."""
    return not isinstance(node, ast.ExceptHandler) or ast.unparse(node.body[-1]) == "raise"


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("backend", ["torch_dtensor", "xla_spmd"])
def test_a_script_draws_the_numbers_of_the_case(backend: str) -> None:
    compared = 0
    for case, script in scripts(backend, FAULTS[0]):
        if "WEIGHTS" in script:
            continue  # lists its numbers, as the test below shows
        if case.data.learnable and not case.model.tokens:
            continue  # rounds on torch's side before the teacher gets it
        space = functions(script)
        space["rounded"] = lambda values, dtype=case.dtype: draws.round_to(
            dtype, np.asarray(values, dtype=np.float64)
        )
        assert_weights_are_drawn(case, space)
        for step in range(2):
            assert_batch_is_drawn(case, step, space["batch"](step))
        compared += 1
    assert compared >= LEAST_COMPARED, "most scripts draw their numbers"


def assert_weights_are_drawn(case: Case, space: Mapping[str, Any]) -> None:
    for name, values in numbers.weights(case).items():
        drawn = space["rounded"](space["weight"](name, values.shape))
        assert np.array_equal(drawn, values), (case.id, name)


def assert_batch_is_drawn(case: Case, step: int, drawn: tuple[Any, ...]) -> None:
    inputs, targets, *others = drawn
    truth = numbers.batch(case, step)
    assert np.array_equal(inputs, truth.inputs)
    assert np.array_equal(targets, truth.targets)
    if case.training.loss == "cross_entropy":
        assert others.pop(0) == truth.count
    if truth.extras:
        (extras,) = others
        assert extras.keys() == truth.extras.keys()
        assert all(np.array_equal(extras[name], values) for name, values in truth.extras.items())
    else:
        assert not others


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_script_lists_the_numbers_of_a_small_case(dtype: DType) -> None:
    case = a_case(dtype=dtype, fed=Data(batch=2, learnable=True))
    text = render(case, "torch_ddp", FAULTS[0], "few")
    assert "np." not in text
    body = {
        node.targets[0].id: node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    listed = ast.literal_eval(body["WEIGHTS"])
    for name, values in numbers.weights(case).items():
        assert np.array_equal(np.array(listed[name], dtype=np.float32), values)
    for step, (what, place) in itertools.product(range(2), {"inputs": 0, "targets": 1}.items()):
        literal = next(line for line in text.splitlines() if f"{what} = torch.tensor(" in line).partition(
            "torch.tensor("
        )[2]
        truth = (numbers.batch(case, step).inputs, numbers.batch(case, step).targets)[place]
        assert np.array_equal(
            np.array(ast.literal_eval(literal.partition("[step]")[0])[step], dtype=np.float32), truth
        )
    assert (".to(torch." in literal) == (dtype != "float32")
    assert "WEIGHTS" not in render(a_case(fed=Data(batch=32)), "torch_ddp", FAULTS[0], "many")


MOST_SHORT, MOST_OWN_NUMBERS = 48, 62
MORE = {
    "torch_experts": 105,
    "torch_pipeline": 55,
    "xla_ddp": 38,
    "xla_replica": 23,
    "torchax": 17,
    "torch_fsdp1": 3,
}
"""Extra lines: for rows that are exchanged, for stages and their schedule, for replicas on XLA:CPU, which
need a compile gate, for JAX, which differentiates, and for FSDP1, whose flat parameters are gathered."""

SMALL = {
    "torch_experts": experts_case(),
    "torch_pipeline": pipeline_case(),
    "torch_tp": tensor_parallel_case(),
    "xla_tp": tensor_parallel_case(),
}
OF_SMALL = (*FAULTS[1:3], *FAULTS[4:8], FAULTS[9], dataclasses.replace(FAULTS[0], step=0))


def test_the_script_of_a_small_case_is_short(subtests: pytest.Subtests) -> None:
    """Blank lines count too."""
    for backend, shown in itertools.product(ORDINARY, OF_SMALL):
        case, more = SMALL.get(backend, a_case()), MORE.get(backend, 0)
        with subtests.test(f"{backend}-{shown.kind}-{shown.stage}-{shown.tensor or shown.failure}"):
            plain = render(case, backend, shown, "small", plan(case), plain=True)
            assert plain.count("\n") <= MOST_SHORT + more
            assert render(case, backend, shown, "small", plan(case)).count("\n") <= MOST_OWN_NUMBERS + more


def test_a_case_that_no_template_can_show_is_refused_with_the_reason() -> None:
    assert "there is no template for backend 'xla_splash'" in (refusal(a_case(), "xla_splash") or "")
    assert refusal(a_case(), "torch_ddp") is None
    scanned = a_case(training=Training(accumulation=2), start=Start(accumulation="scan"))
    assert "accumulates by 'scan'" in (refusal(scanned, "xla_spmd") or "")


WITHOUT_SCRIPT = [name for name, check in checks.load_all().items() if not check.TRAITS.scripts]


@pytest.mark.parametrize("check", WITHOUT_SCRIPT)
def test_a_finding_of_a_check_that_compares_runs_is_refused_without_a_run(
    check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "run", lambda *_, **__: pytest.fail("it was run"))
    corpus = Corpus(tmp_path)
    corpus.save(changed(FINDING, check=check), a_case())
    arguments = [str(tmp_path / FINDING.fingerprint), "--json", "--trust"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    output = json.loads(done.stdout)
    assert (done.return_value, output["reason"]) == (
        1,
        f"no script can show a finding of the check {check!r}, which looks at more than a run's numbers",
    )


def test_the_checks_without_a_script_are_those_of_more_than_a_runs_numbers() -> None:
    assert sorted(WITHOUT_SCRIPT) == [
        "annotation",
        "buffers",
        "determinism",
        "full_tensor",
        "on_device",
        "recompile",
        "reduction_dtype",
        "rejection",
        "result_facts",
        "runtime_init",
        "zero_signs",
    ]


def measured_fault(stage: Stage = Stage.BACKWARD) -> Fault:
    return Fault(kind="numbers", stage=stage, step=0, tensor="0.weight", tolerance=1e-3)


def test_other_numbers_are_used_only_for_errors_far_beyond_rounding() -> None:
    assert any_numbers(a_case(), measured_fault(), 1e4)
    assert not any_numbers(a_case(), measured_fault(), 40.0), (
        "the rounding of other numbers might be as large"
    )
    assert any_numbers(a_case(training=Training(optimizer="adam")), measured_fault(), 1e4)
    assert not any_numbers(a_case(training=Training(optimizer="adam")), measured_fault(Stage.UPDATE), 1e4)
    assert not any_numbers(a_case(fed=Data(batch=4, learnable=True)), measured_fault(), 1e4)
    assert any_numbers(a_case(), FAULTS[4], None), "copies must be equal whatever their values"
    assert any_numbers(a_case(), FAULTS[9], None)


@pytest.mark.parametrize(
    ("regime", "expression"),
    [
        ("large", "torch.randn((4, 4)) * 1024.0"),
        ("tiny", "torch.randn((4, 4)) / 4096.0"),
        ("zeros", "(torch.rand((4, 4)) < 0.5)"),
        ("exact", "torch.randint(-2, 3, (4, 4))"),
        ("ties", "torch.randint(-1, 2, (4, 4))"),
    ],
)
def test_other_numbers_have_the_regime_of_the_case(regime: Regime, expression: str) -> None:
    text = render(a_case(fed=Data(batch=4, regime=regime)), "torch_ddp", FAULTS[1], "kinds", plain=True)
    assert expression in text
    assert ("torch.randint(-1, 2, parameter.shape)" in text) == (regime == "exact")


def test_other_numbers_of_a_half_type_are_rounded_before_conversion_to_float64() -> None:
    text = render(a_case(dtype="bfloat16"), "torch_ddp", FAULTS[1], "half", plain=True)
    assert "torch.randn((4, 4)).to(torch.bfloat16)" in text
    assert ".to(torch.bfloat16).to(dtype)" in text
    assert "--xla_allow_excess_precision=false" in render(
        a_case(dtype="bfloat16"), "xla_spmd", FAULTS[1], "half"
    )


def test_replicas_draw_numbers_from_generators_of_their_own() -> None:
    """Replicas are threads, which share torch's generator."""
    text = render(a_case(), "xla_ddp", FAULTS[1], "threads", plain=True)
    assert "generator = torch.Generator().manual_seed(1)" in text
    assert text.count("generator=generator)") == 2
    assert text.count("torch.manual_seed(") == 1, "that of the models, built before there are threads"
    assert "\nMODELS = [build(" in text
    assert "generator" not in render(a_case(), "torch_ddp", FAULTS[1], "processes", plain=True)


@pytest.mark.parametrize(("backend", "most"), [("xla_replica", 40), ("xla_ddp", 46)])
def test_a_failure_of_replicas_before_a_graph_runs_is_shown_without_a_gate(backend: str, most: int) -> None:
    crash = Fault(kind="crash", stage=Stage.BACKWARD, step=0, failure="SIGSEGV")
    text = render(a_case(), backend, crash, "no gate", plain=True, gate="none")
    assert "GATE" not in text
    assert text.count("\n") <= most
    assert gates(a_case(), backend, crash) == ("none", "graphs")
    aborted = dataclasses.replace(crash, failure="SIGABRT")
    assert gates(a_case(), backend, aborted) == ("graphs",), "XLA aborts where replicas compile apart"
    named = dataclasses.replace(aborted, needle="Check failed: x")
    assert gates(a_case(), backend, named) == ("none", "graphs")
    assert gates(a_case(), "xla_spmd", crash) == ("graphs",), "it has no gate"


@pytest.mark.parametrize(("backend", "most"), [("xla_replica", 41), ("xla_ddp", 45)])
def test_replicas_that_are_wrong_in_their_first_graph_compile_one_after_the_other(
    backend: str, most: int
) -> None:
    for shown in (FAULTS[1], FAULTS[2], FAULTS[4], FAULTS[7]):
        text = render(a_case(), backend, shown, "in turn", plain=True, gate="once")
        assert "GATE" not in text
        assert "for turn in range(2):" in text
        assert text.count("\n") <= most
        assert gates(a_case(), backend, shown) == ("once", "graphs")


def test_replicas_with_more_than_one_graph_have_a_gate_around_each() -> None:
    assert gates(a_case(), "xla_ddp", FAULTS[0]) == ("graphs",), "it shows in the second step"
    apart = a_case(replication=Replication(own_weights=True))
    assert gates(apart, "xla_ddp", FAULTS[1]) == ("graphs",), "rank 0's weights have to be sent first"


def test_a_long_title_is_cut_after_a_clause_or_a_word() -> None:
    title = (
        "SPMD: max_unpool1d dies of SIGABRT in the backward pass: partitioner.h: Check failed: " + "x " * 40
    )
    assert spelling.docstring(title) == title.rpartition(": ")[0]
    assert spelling.docstring("word " * 40) == ("word " * 24).strip()
    assert spelling.docstring("short") == "short"


def test_a_script_imports_only_what_it_uses() -> None:
    for _, text in scripts("torch_fsdp", FAULTS[1], plain=True):
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        imported = [
            alias
            for node in ast.parse(text).body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
        assert {(alias.asname or alias.name).partition(".")[0] for alias in imported} <= used


def test_a_graph_that_cannot_be_recompiled_is_inconclusive_with_the_reason(tmp_path: Path) -> None:
    assert recompile(Path(sys.executable), tmp_path, 2, "x") == "inconclusive: no StableHLO was kept"
    (tmp_path / "graph0.stablehlo.txt").write_text("no module")
    assert recompile(tmp_path / "python", tmp_path, 2, "x").startswith("inconclusive")


def test_a_script_that_fails_or_does_not_end_shows_no_fault() -> None:
    assert run_script("print('expected 1, actual 2')").shown
    assert not run_script("raise SystemExit(1)").shown
    assert "not finished" in run_script("import time; time.sleep(60)", seconds=0.5).output
    assert "DIFFTEST" not in run_script("import os; print(sorted(os.environ))").output
