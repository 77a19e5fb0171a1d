"""Ten drafts of different kinds: how long they are, and every command in them run as it is printed."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from forked_scripts import forked, run_forked
from sample_findings import a_measurement, finding_of
from sample_programs import a_program, an_operator
from samples import DEEP, a_case
from test_reproducer_blocks import cases as block_cases
from test_reproducer_blocks import gradient
from test_reproducer_features import UPDATED as OF_FEATURE
from test_reproducer_features import featured

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Shard
from difftest.cases.options import Feature
from difftest.findings.faults import KnownFault, KnownScript, read_faults
from difftest.ground import made_environments
from difftest.jobs.filing.block_sources import block_texts
from difftest.jobs.filing.script_runs import keep_graphs, run_script
from difftest.jobs.watch.script_states import variables_of
from difftest.judge.fingerprint import FAILURES
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun
from reports.draft.compilation import GRAPH, PROGRAM
from reports.draft.draft import Draft
from reports.draft.rendering import MOST_FIRST, MOST_LINES, first_lines, render
from reports.draft.reportable import releases_of
from reports.reproducer.fault import Fault
from reports.reproducer.reproducer import render as script
from workers.backends import titles

CALLED = titles()
UNEVEN = a_case(training=Training(loss="cross_entropy"), fed=Data(batch=3))
CLIPPED = a_case(DEEP, training=Training(clip_norm=0.25))
MEAN = a_program(
    an_operator("mean", operands={"input": Operand(shape=(5, 3))}), sharded={"0.input": (Shard(0),)}
)
FEATURED = featured(Feature(name="amsgrad"), optimizer="adam")
UPDATE = Fault(kind="numbers", stage=Stage.UPDATE, step=0, tensor="0.weight", tolerance=1e-4)
RESULT = Fault(kind="numbers", stage=Stage.FORWARD, step=0, tensor="0.output", tolerance=1e-4)
ABORT = Fault(
    kind="crash", stage=Stage.BACKWARD, step=0, failure="SIGABRT", needle="ShapeUtil::IsScalarWithElementType"
)
REFUSED = Fault(kind="raises", stage=Stage.FORWARD, step=0, failure="RuntimeError", needle="isFunctional")
CHECK = "F external/xla/xla/service/spmd/spmd_partitioner_util.h:127] Check failed: ShapeUtil::IsScalar(x)"
MODULE = "module @IrToHlo.90 {\n" + "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n" * 50 + "}\n"
COLLECTED = (
    "PyTorch version: 2.9.0\nOS: Debian\n\nCPU:\nArchitecture: x86_64\nFlags: fpu vme\n[pip3] torch==2.9.0\n"
)
TRACE = "Traceback (most recent call last):\n" + '  File "x.py", line 1, in f\n    f()\n' * 40


@dataclass(frozen=True)
class Subject:
    """What is drafted: a case of a backend with its script, or the script of a listed fault."""

    backend: str
    tracker: str
    text: Callable[[], str]
    case: Case
    symptom: Symptom = Symptom.MISMATCH
    detail: str = "step 0, forward, 0.output: has dtype float64, expected float32"
    nature: str = ""
    operator: str = ""
    listed: str = ""
    packages: tuple[tuple[str, str], ...] = (("torch", "2.9.0"), ("torch_xla", "2.9.0"))

    @property
    def known(self) -> KnownScript | None:
        """The listed fault's script."""
        return fault(self.listed).shown_by if self.listed else None


def fault(name: str) -> KnownFault:
    return next(one for one in read_faults() if one.name == name)


def a_listed(name: str, backend: str, tracker: str, **more: object) -> Subject:
    return Subject(backend, tracker, lambda: fault(name).shown_by.text, a_case(), listed=name, **more)  # type: ignore[arg-type]


def a_written(backend: str, tracker: str, case: Case, shown: Fault, **more: object) -> Subject:
    """A case with the plain script of it that shows `shown`."""
    return Subject(backend, tracker, lambda: script(case, backend, shown, "x", plain=True), case, **more)  # type: ignore[arg-type]


def of_block() -> tuple[Case, str]:
    _, case = next(block_cases("torch_ddp"))
    texts = block_texts(case)
    return case, script(case, "torch_ddp", gradient(case), "a block", block_texts=texts, plain=True)


TEN = {
    "crash": a_listed(
        "roll_of_nothing_on_xla",
        "xla_spmd",
        "xla",
        symptom=Symptom.CRASH,
        detail=f"step 0, forward, rank 0: SIGSEGV: {TRACE}",
    ),
    "exception": a_written(
        "xla_dtensor",
        "xla",
        a_case(),
        REFUSED,
        symptom=Symptom.EXCEPTION,
        detail="step 0, forward, rank 0: RuntimeError: isFunctionalTensor",
    ),
    "annotation": a_listed(
        "two_axes_on_one_dim_on_xla",
        "xla_annotated",
        "xla",
        detail="step 0, place, 0.input: its dims are annotated to be cut into [2] pieces, expected [4]",
    ),
    "wrong numbers": a_written(
        "torch_dtensor",
        "pytorch",
        CLIPPED,
        UPDATE,
        detail="step 0, update, 0.weight: 8 / 8 elements differ, greatest 0.0133; 3e+05 x the rounding noise",
        nature="off by a constant factor",
    ),
    "operator": Subject(
        "torch_dtensor",
        "pytorch",
        lambda: script(MEAN, "torch_dtensor", RESULT, "x"),
        MEAN,
        detail="step 0, forward, 0.output: 1 / 1 elements differ, greatest 0.0964; 4e5 x the rounding noise",
        operator="mean",
    ),
    "block": Subject(
        "torch_ddp",
        "pytorch",
        lambda: of_block()[1],
        a_case(),
        detail="step 0, backward, 1.inner.weight: 3 / 144 elements differ; 12 x the rounding noise",
    ),
    "feature": a_written(
        "torch_ddp",
        "pytorch",
        FEATURED,
        OF_FEATURE,
        detail="step 1, update, 0.weight: 8 / 8 elements differ, greatest 0.25; 3e+05 x the rounding noise",
        nature="off by a constant factor",
    ),
    "newest torch": a_listed(
        "batch_norm_statistics_on_dtensor", "torch_dtensor@newest", "pytorch", packages=(("torch", "2.15.0"),)
    ),
    "TorchTPU": a_listed(
        "compiled_views_on_torch_tpu",
        "tpu_compile@torch_tpu",
        "xla",
        packages=(("torch", "2.15.0"), ("torch_tpu", "0.2.0"), ("device", "CPU")),
    ),
    "openxla": a_written(
        "xla_spmd",
        "openxla",
        UNEVEN,
        ABORT,
        symptom=Symptom.CRASH,
        detail=f"step 0, backward, rank 0: SIGABRT: {CHECK}",
    ),
}


def finding(subject: Subject) -> Finding:
    return finding_of(
        fingerprint=f"{subject.backend}-completion-{subject.symptom}-0a1b2c3d",
        backend=subject.backend,
        side=subject.backend.partition("_")[0].replace("tpu", "xla"),
        path="data_parallel",
        check="completion",
        symptom=subject.symptom,
        stage=Stage.FORWARD,
        tensor="0.output",
        blame="torch sharding fault",
        hits=3,
        case=subject.case.id,
        detail=subject.detail,
        nature=subject.nature,
        operator=subject.operator,
        log=TRACE if subject.symptom in FAILURES else "",
        stable=(2, 2),
        environment={**dict(subject.packages), "python": "3.11.7"},
        evidence={"single": "agrees", "other": "agrees", "then": "loss: 1 / 2 elements differ"},
        ablations={f"change {number}": "disappears" for number in range(12)},
        conditions=("clip_norm=0.25", "batch=3"),
        first_seen="2026-11-20T10:00:00+00:00",
        last_seen="2026-11-21T10:00:00+00:00",
    )


def drafted(subject: Subject, output: str, graph: str = MODULE) -> str:
    shown, compiled = finding(subject), subject.tracker == "openxla"
    known, text = subject.known, subject.text()
    measured = a_measurement(3e5, tensor="0.output", greatest=0.25)
    run = ReducedRun(case=subject.case.id, divergence=shown.divergence, measurement=measured)
    return render(
        Draft(
            finding=shown,
            case=subject.case,
            releases=releases_of(shown),
            run=None if known or subject.symptom is not Symptom.MISMATCH else run,
            reproducer=text,
            listed=known is not None,
            listed_title=known.title if known else "",
            output=output,
            ran_here=True,
            versions=tuple((f"{name} (in the run)", release) for name, release in subject.packages),
            collected=COLLECTED,
            artifacts=("artifacts/graph0.stablehlo.txt",) if compiled else (),
            graph=graph if compiled else "",
            called=CALLED,
        ),
        subject.tracker,
    )


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", TEN)
@pytest.mark.parametrize("output", ["expected 1, actual 2\nBUG REPRODUCED\n", TRACE + "RuntimeError: no\n"])
def test_a_draft_is_short(name: str, output: str) -> None:
    text = drafted(TEN[name], output)
    assert first_lines(text) <= MOST_FIRST
    assert text.count("\n") <= MOST_LINES
    (case,) = blocks(text, "json")
    assert json.loads(case) == json.loads(TEN[name].case.to_json())
    assert case.count("\n") <= len(json.loads(case)) + 2
    for word in (
        "Flags:",
        "BUG REPRODUCED",
        "sys.argv",
        "FAULTS",
        "Exits 0",
        "has to read it",
        'x.py", line 1, in f\n    f()\n' * 20,
    ):
        assert word not in text, word
    assert text.count("DTensor: ") <= 1, "the title's prefix stands once"


def test_what_is_expected_has_the_numbers_of_the_finding() -> None:
    printed = drafted(TEN["operator"], "expected [0.5], actual [0.25]\n")
    assert "Expected `[0.5]`, got `[0.25]`." in printed
    long = drafted(TEN["operator"], "expected [0.6000000238418579], actual [0.0]\n")
    assert "Expected `[0.6]`, got `[0.0]`." in long
    silent = drafted(
        replace(TEN["operator"], detail="step 0, forward, 0.output: has dtype float64, expected float32"), ""
    )
    assert "Expected dtype float32, got float64." in silent
    annotated = drafted(TEN["annotation"], "each device holds: expected (2, 8), actual (4, 8)\n")
    assert "Expected (2, 8), got (4, 8)." in annotated
    assert "## Expected behavior\n\n(2, 8) instead of (4, 8).\n" in annotated
    of_tpu = drafted(TEN["TorchTPU"], "")
    assert "`torch.compile` with torch 2.15.0 and torch_tpu 0.2.0: a result" in of_tpu.replace("\\", "")
    assert "torch_xla" not in of_tpu.partition("<details>")[0].replace("\\", "")


def test_a_script_is_shown_before_a_log_where_there_is_room_for_one() -> None:
    text = drafted(TEN["crash"], TRACE + "RuntimeError: no\n")
    assert text.index("import torch_xla") < text.index("<details>")


def test_a_crash_is_named_where_the_script_prints_nothing() -> None:
    silent = drafted(TEN["crash"], "")
    assert "`python script.py` dies of SIGFPE.\n" in silent
    assert "`python script.py` dies of SIGFPE and prints `6`\n" in drafted(TEN["crash"], "6\n")
    assert "```text\n\n" not in silent, "no empty output"


def test_numbers_that_are_near_keep_the_digits_that_tell_them_apart() -> None:
    text = drafted(TEN["feature"], "expected 0.237918549, actual 0.237918526 on rank 0\n")
    assert "Expected 0.237918549, got 0.237918526 on rank 0." in text


def test_a_listed_title_keeps_its_code() -> None:
    assert drafted(TEN["crash"], "").startswith("# `roll` of an empty tensor crashes the process\n")


def test_the_compilers_check_stands_in_the_first_sentence_and_its_module_before_the_program() -> None:
    short = "module @short {\n}\n"
    text = drafted(TEN["openxla"], TRACE, short)
    assert text.startswith(
        "# XLA aborts in spmd_partitioner_util.h:127: Check failed: ShapeUtil::IsScalar(x)\n"
    )
    first = text.splitlines()[2]
    assert first.startswith("`Check failed: ShapeUtil::IsScalar(x)` (spmd\\_partitioner\\_util.h:127)")
    assert text.index(short) < text.index("import jaxlib") < text.index("<details>")
    assert "jax._src" not in text
    assert drafted(TEN["openxla"], TRACE).index(MODULE) > text.index("<details>"), "a long one unfolds"


MADE = {"newest torch": "newest", "TorchTPU": "torch_tpu"}
"""The made environments in which these scripts run."""


def interpreter(name: str) -> str:
    """The Python in which a draft's script runs; the test is skipped where its packages are not here."""
    if made := MADE.get(name):
        there = made_environments.python(made)
        return str(there) if there else pytest.skip(f"needs `difftest environments make {made}`")
    needs = {"torch_xla": "xla" in TEN[name].backend, "torch": True}
    lacks = [package for package, used in needs.items() if used and not importlib.util.find_spec(package)]
    return pytest.skip(f"{lacks[0]} is not installed") if lacks else sys.executable


ALONE = ("operator", "openxla")
"""A draft of a program and one of a training whose printed scripts run by themselves.

The others run in forks of a Python: each rank of a script would import torch.
"""


def by_itself(file: Path, python: str, variables: Mapping[str, str]) -> tuple[int, str]:
    """The exit status of `python script.py`, and what it printed."""
    done = subprocess.run(
        [python, str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=file.parent,
        env=os.environ | variables,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("name", TEN)
def test_every_command_of_a_draft_runs_as_printed(name: str, tmp_path: Path) -> None:
    """The printed script fails as the original one, or prints the very lines that the draft quotes."""
    subject, python = TEN[name], interpreter(name)
    original = subject.text()
    raises = subject.known.raises if subject.known else ()
    more = variables_of(fault(subject.listed), python) if subject.listed else {}
    elsewhere = python != sys.executable or bool(more)
    alone = name in ALONE or elsewhere
    ran = (
        run_script(original, python=python, raises=raises, variables=more)
        if elsewhere
        else run_forked(original, raises)
    )
    assert ran.shown or name in ("block", "feature"), ran.output
    graph = MODULE
    if name == "openxla":
        kept = keep_graphs(original, tmp_path / "artifacts", python=python)
        graph = (tmp_path / "artifacts" / next(file for file in kept if "stablehlo" in file)).read_text()
    text = drafted(subject, ran.output, graph)
    assert first_lines(text) <= MOST_FIRST
    assert text.count("\n") <= MOST_LINES
    for number, printed in enumerate(
        program for program in blocks(text, "python") if "jaxlib" not in program
    ):
        file = tmp_path / f"script{number}.py"
        file.write_text(printed)
        status, came = by_itself(file, python, more) if alone else forked(printed)
        in_line = re.search(r"`python script\.py` prints `(.*)`$", text, re.MULTILINE)
        quoted = in_line[1] if in_line else blocks(text, "text")[0]
        fails = bool(raises) or subject.symptom in FAILURES
        assert (status != 0) == fails, came
        assert fails or quoted.strip() in came
    if name == "openxla":
        (tmp_path / GRAPH).write_text(
            next(block for block in blocks(text, "text") if block.startswith("module"))
        )
        (tmp_path / PROGRAM).write_text(next(block for block in blocks(text, "python") if "jaxlib" in block))
        done = subprocess.run([python, PROGRAM], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode < 0
        assert ABORT.needle in done.stderr
