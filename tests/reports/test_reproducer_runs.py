"""Reproducer scripts run for faults in the pinned torch and torch_xla, and for healthy cases."""

import sys
from pathlib import Path

import pytest
from forked_scripts import run_forked
from installed_packages import needs, skip_without
from pieces_of_sequences import GRID, in_pieces
from sample_scripts import LEARNED, OPERATIONS, collective_case, plan
from samples import DEEP, a_case, tensor_parallel_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Shard
from difftest.cases.options import Replication, Spelling
from difftest.jobs.filing.recompilation import recompile
from difftest.jobs.filing.script_runs import keep_graphs
from difftest.judge.stage import Stage
from reports.reproducer.fault import Fault
from reports.reproducer.reproducer import render

needs_torch = skip_without("torch")
needs_xla = skip_without("torch_xla")

CLIPPED = a_case(DEEP, training=Training(clip_norm=0.25))
UNEVEN = a_case(training=Training(loss="cross_entropy"), fed=Data(batch=3))
GRADIENT = Fault(kind="numbers", stage=Stage.BACKWARD, step=0, tensor="0.weight", tolerance=1e-4)
UPDATED = Fault(kind="numbers", stage=Stage.UPDATE, step=0, tensor="0.weight", tolerance=1e-4)
OUTPUT = Fault(kind="numbers", stage=Stage.FORWARD, step=0, tensor="output", tolerance=1e-4)
COPIES = Fault(kind="replicas", stage=Stage.UPDATE, step=0, tensor="0.weight")
ASSERT = Fault(
    kind="raises", stage=Stage.FORWARD, step=0, failure="RuntimeError", needle="isFunctionalTensor"
)
MISSING = Fault(
    kind="raises", stage=Stage.FORWARD, step=0, failure="AttributeError", needle="_coordinate_on_dim"
)
ABORT = Fault(
    kind="crash", stage=Stage.BACKWARD, step=0, failure="SIGABRT", needle="ShapeUtil::IsScalarWithElementType"
)
EARLY = a_case(spelling=Spelling(optimizer_before=True))
VIEW, NO_VIEW = (a_case(replication=Replication(gradient_as_bucket_view=view)) for view in (True, False))


@pytest.mark.slow
@needs_torch
def test_a_script_shows_the_clipping_of_partial_gradients_only_on_the_faulty_backend() -> None:
    shown = run_forked(render(CLIPPED, "torch_dtensor", UPDATED, "clip_grad_norm_"))
    assert shown.shown, shown.output
    assert "expected" in shown.output
    assert "actual" in shown.output
    assert not run_forked(render(CLIPPED, "torch_ddp", UPDATED, "healthy")).shown


@pytest.mark.slow
@pytest.mark.nightly
@needs_torch
@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor"])
def test_a_script_shows_no_fault_on_a_correct_backend(backend: str) -> None:
    done = run_forked(render(a_case(DEEP), backend, GRADIENT, "healthy"))
    assert not done.shown
    assert "tolerance" in done.output, "it must have compared, not failed"


@pytest.mark.slow
@pytest.mark.nightly
@needs_torch
def test_scripts_of_correct_collectives_and_redistributions_show_no_fault() -> None:
    moves = (
        Redistribute(width=4, dims=(1,), by="full_tensor"),
        Redistribute(width=4, dims=(None,), by="to_local"),
    )
    moving = a_case((Linear(inputs=4, outputs=4), *moves, Linear(inputs=4, outputs=2)))
    cases = [
        (collective_case(operation, "single", factor=0.5), "torch_ddp", LEARNED) for operation in OPERATIONS
    ]
    for case, backend, shown in [*cases, (moving, "torch_dtensor", GRADIENT)]:
        done = run_forked(render(case, backend, shown, "healthy", plain=True))
        assert not done.shown
        assert "tolerance" in done.output, done.output


@pytest.mark.slow
@pytest.mark.nightly
@needs_torch
def test_scripts_of_correct_wrappers_of_sharded_parameters_show_no_fault() -> None:
    sharded = a_case(
        sharded={"0.weight": (Shard(0),), "0.bias": (Shard(0),)},
        mesh=(("dp_shard", 2),),
        path="fully_sharded",
    )
    columns = tensor_parallel_case()
    for case, backend in ((sharded, "torch_fsdp"), (columns, "torch_tp")):
        done = run_forked(render(case, backend, GRADIENT, "healthy", plan(case)))
        assert not done.shown
        assert "tolerance" in done.output, done.output


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("case", "shown"),
    [(in_pieces(sharded=True, causal=True), GRADIENT), (in_pieces(GRID), OUTPUT)],
    ids=["sharded", "rows too"],
)
def test_scripts_of_correct_pieces_of_sequences_show_no_fault(case: Case, shown: Fault) -> None:
    done = run_forked(render(case, "torch_cp_gathered", shown, "healthy"))
    assert not done.shown
    assert "tolerance" in done.output, done.output


@pytest.mark.slow
@pytest.mark.xla
@needs_xla
@pytest.mark.parametrize(
    ("case", "backend", "shown"),
    [
        (a_case(), "xla_dtensor", ASSERT),
        (tensor_parallel_case(), "xla_tp", MISSING),
        (UNEVEN, "xla_spmd", ABORT),
        (VIEW, "xla_ddp", COPIES),
        (EARLY, "torchax", UPDATED),
    ],
    ids=["functional tensor", "coordinate", "gather", "bucket view", "early optimizer"],
)
def test_scripts_show_the_faults_of_the_pinned_torch_xla(case: Case, backend: str, shown: Fault) -> None:
    done = run_forked(render(case, backend, shown, "alive", plan(case), plain=shown.kind != "replicas"))
    assert done.shown, done.output
    assert shown.fails or "BUG REPRODUCED" in done.output.splitlines()
    assert (shown.needle or "expected") in done.output, "an exception goes through, with its traceback"


@pytest.mark.slow
@pytest.mark.xla
@needs_xla
def test_replicas_that_compile_one_after_the_other_show_a_fault_and_only_that() -> None:
    faulty, correct = (
        run_forked(render(case, "xla_ddp", GRADIENT, "in turn", plain=True, gate="once"))
        for case in (VIEW, NO_VIEW)
    )
    assert faulty.shown, faulty.output
    assert correct.absent, correct.output


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.xla
@needs_xla
def test_the_graphs_of_a_compiler_crash_are_kept(tmp_path: Path) -> None:
    kept = keep_graphs(render(UNEVEN, "xla_spmd", ABORT, "graphs", plain=True), tmp_path / "artifacts")
    assert any("stablehlo" in name for name in kept)
    assert any("before_optimizations" in name for name in kept)
    assert "func.func @main" in (tmp_path / "artifacts" / kept[0]).read_text()
    needs("jaxlib", reason="needs jaxlib, which torch_xla's flash attention brings")
    message = recompile(Path(sys.executable), tmp_path / "artifacts", UNEVEN.world_size, ABORT.needle)
    assert message.startswith("diverges: SIGABRT with jaxlib 0.7")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.xla
@needs_xla
@pytest.mark.parametrize(
    ("case", "backend", "shown", "reason"),
    [
        (a_case(DEEP), "xla_spmd", GRADIENT, "greatest error"),
        (a_case(training=Training(loss="cross_entropy")), "xla_spmd", ABORT, ""),
        (a_case(), "xla_spmd", ASSERT, ""),
        (NO_VIEW, "xla_ddp", COPIES, "greatest difference 0"),
        (a_case(DEEP), "xla_replica", GRADIENT, "greatest error"),
        (a_case(DEEP), "xla_compile", GRADIENT, "greatest error"),
        (a_case(DEEP), "xla_compile", COPIES, "actual 0 apart"),
        (a_case(DEEP), "torchax", GRADIENT, "greatest error"),
        (a_case(), "torchax", ASSERT, ""),
    ],
    ids=["numbers", "crash", "raises", "ddp", "replica", "compile", "copies", "torchax", "jax raises"],
)
def test_scripts_of_correct_runs_on_xla_show_no_fault(
    case: Case, backend: str, shown: Fault, reason: str
) -> None:
    done = run_forked(render(case, backend, shown, "healthy"))
    assert done.absent
    assert reason in done.output, done.output
