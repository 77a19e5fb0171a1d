"""Collectives in real processes.

Every operation, reduction and form, bit for bit, and what XLA compiles them to.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from installed_packages import needs, skip_without
from real_runs import oracle_trace
from samples import a_case

from difftest.cases.case import Case, Data
from difftest.cases.exactness import inexact
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh, Shard
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from difftest.judge.stage import Stage
from workers.backends import torch_dtensor, torch_fsdp, torch_tp, xla_dtensor, xla_tp
from workers.faults import VARIABLE
from workers.isolate import sandbox

pytestmark = pytest.mark.slow

XLA = [
    pytest.mark.xla,
    skip_without("torch_xla"),
]
BACKENDS = ["torch_ddp", pytest.param("xla_replica", marks=XLA), pytest.param("xla_spmd", marks=XLA)]

LINE = (("dp", 2),)
GRID = (("dp_replicate", 2), ("dp_shard", 2))
REDUCING = ("all_reduce", "reduce_scatter")
OPERATIONS = [(name, reduction) for name in REDUCING for reduction in ("sum", "max", "min")] + [
    (name, "sum") for name in ("all_gather", "all_to_all", "permute", "broadcast")
]


def case_of(
    operation: str,
    mesh: tuple[tuple[str, int], ...] = GRID,
    axis: int = 0,
    **how: Any,  # noqa: ANN401  fields of the collective
) -> Case:
    """An exact case of one collective with a factor; `how` has fields of the collective, and the dtype."""
    spec = {"width": 4, "factor": 2.0, **{k: v for k, v in how.items() if k != "dtype"}}
    fields: dict[str, Any] = {"operation": operation, "mesh": Mesh(mesh).shape, "axis": axis, **spec}
    layer = Collective(**fields)
    cut = (Shard(0),) * len(mesh)
    linear = Linear(inputs=layer.outputs, outputs=2)
    fed, dtype = Data(batch=8, regime="exact"), how.get("dtype", "float32")
    return a_case((layer, linear), mesh=mesh, batch=cut, fed=fed, dtype=dtype, path="collectives")


def equal(case: Case, actual: Outcome) -> bool:
    """Whether every tensor equals the oracle's exactly."""
    expected = oracle_trace(case)
    assert isinstance(actual, Trace), actual
    alone, mesh = case.unsharded().layout.mesh, case.layout.mesh
    keys = expected.steps[0].keys()
    assert keys == actual.steps[0].keys()
    return all((expected.steps[0][key].full(alone) == actual.steps[0][key].full(mesh)).all() for key in keys)


MESHES = (
    pytest.param(LINE, 0, id="2 ranks", marks=pytest.mark.nightly),
    pytest.param(GRID, 0, id="outer of 2 x 2"),
    pytest.param(GRID, 1, id="inner of 2 x 2", marks=pytest.mark.nightly),
)


@pytest.mark.parametrize("form", ["single", pytest.param("list", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("mesh", "axis"), MESHES)
@pytest.mark.parametrize(("operation", "reduction"), OPERATIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_collective_gives_the_exact_bits(  # noqa: PLR0913, PLR0917  the table's columns
    backend: str, operation: str, reduction: str, mesh: tuple[tuple[str, int], ...], axis: int, form: str
) -> None:
    case = case_of(operation, mesh, axis, reduction=reduction, form=form)
    assert inexact(case) is None
    outcome = sandbox.run(case, backend)
    if (backend, operation, form) == ("torch_ddp", "all_to_all", "list") and isinstance(outcome, Failure):
        assert (outcome.symptom, outcome.stage) == (Symptom.CAPABILITY, Stage.FORWARD)
        assert outcome.message == "Backend gloo does not support alltoall"
        return
    assert equal(case, outcome)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_collectives_work_in_half_types(backend: str, dtype: str) -> None:
    case = case_of("all_reduce", LINE, width=2, dtype=dtype)
    outcome = sandbox.run(case, backend)
    assert isinstance(outcome, Trace), outcome
    assert outcome.steps[0][Stage.FORWARD, "output"].dtype == dtype
    narrow = case_of("permute", LINE, width=1, factor=1.0, dtype="float16")
    assert inexact(narrow) is None
    assert equal(narrow, sandbox.run(narrow, backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_device_computes_the_result_of_a_collective(backend: str) -> None:
    case = case_of("all_gather").unsharded()
    assert equal(case, sandbox.run(case, backend))


def test_a_collective_works_with_sharded_parameters() -> None:
    case = case_of("all_to_all", (("dp_shard", 2),))
    cut = a_case(
        case.model.layers,
        mesh=case.layout.mesh.axes,
        sharded={name: (Shard(0),) for name in case.model.parameters()},
        fed=case.data,
        path="collectives",
    )
    assert torch_fsdp.unsupported(cut) is None
    assert equal(cut, sandbox.run(cut, "torch_fsdp"))


def test_backends_of_whole_tensors_refuse_collectives() -> None:
    case = case_of("permute")
    for backend in (torch_dtensor, xla_dtensor):
        assert (
            backend.unsupported(case)
            == "a collective is between the ranks' own tensors; a DTensor is the whole"
        )
        assert backend.unsupported(case.unsharded()) is None
    for plan in (torch_tp, xla_tp):
        assert plan.unsupported(case)


@pytest.mark.parametrize(
    ("operation", "instruction", "least"),
    [
        ("all_reduce", "all-reduce", 4),
        ("all_gather", "collective-permute", 1),
        ("reduce_scatter", "all-to-all", 1),
        ("all_to_all", "collective-permute", 1),
        ("permute", "all-to-all", 1),
        ("broadcast", "all-reduce", 4),
    ],
)
@pytest.mark.xla
@skip_without("torch_xla")
def test_the_compiler_emits_collectives_for_the_annotated_program(
    operation: str, instruction: str, least: int, tmp_path: Path
) -> None:
    """Three all-reduces are for the loss and the gradients; the compiler must add another collective.

    Which one it adds is its own choice.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={tmp_path} --xla_dump_hlo_as_text"
    outcome = sandbox.run(case_of(operation), "xla_spmd", options={"XLA_FLAGS": flags})
    assert isinstance(outcome, Trace), outcome
    programs = [file.read_text() for file in tmp_path.glob("*cpu_after_optimizations.txt")]
    assert sum(text.count(f" {instruction}(") for text in programs) >= least


@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize("fault", ["collective_over_the_other_axis", "collective_factor_dropped"])
def test_a_planted_defect_changes_the_result(backend: str, fault: str) -> None:
    case = case_of("broadcast", axis=1)
    assert not equal(case, sandbox.run(case, backend, options={VARIABLE: fault}))
    alone = case.unsharded()
    assert equal(alone, sandbox.run(alone, backend, options={VARIABLE: fault}))


def test_groups_differ_along_one_axis() -> None:
    needs("torch")
    from workers.xla.collectives import groups  # noqa: PLC0415  torch may be missing

    mesh = Mesh((("dp_replicate", 2), ("dp_shard", 3)))
    assert groups(mesh, 0) == [[0, 3], [1, 4], [2, 5]]
    assert groups(mesh, 1) == [[0, 1, 2], [3, 4, 5]]
    assert groups(Mesh(LINE), 0) == [[0, 1]]
