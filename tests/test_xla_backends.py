"""The XLA backends in real processes, against the oracle."""

import importlib.util

import numpy as np
import pytest

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers import Activation, Attention, Conv, Embedding, LayerNorm, Linear, Residual, RMSNorm
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard, replica_groups
from difftest.cases.model import Model
from difftest.judge.events import Misplaced
from difftest.judge.outcome import Failure, Outcome, Stage, Symptom, Trace
from workers.backends import xla_spmd, xla_tp
from workers.isolate import sandbox
from workers.xla import devices, sharding

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="torch_xla is not installed"),
]

S0, S1, R = Shard(0), Shard(1), Replicate()
TOLERANCE = 2e-6

PERCEPTRON = Model(
    layers=(Linear(inputs=6, outputs=9), Activation(function="tanh"), Linear(inputs=9, outputs=5))
)
TRANSFORMER = Model(
    sequence=6,
    layers=(
        Embedding(vocabulary=12, width=8),
        Residual(layers=(LayerNorm(width=8), Attention(width=8, heads=4, kv_heads=2, segments=True))),
        Residual(layers=(RMSNorm(width=8), Conv(inputs=8, outputs=8))),
        Linear(inputs=8, outputs=12, bias=False, tied=True),
    ),
)
MEGATRON = {"0.weight": S0, "0.bias": S0, "2.weight": S1}

DATA = Mesh((("dp", 4),))
SHARDED = Mesh((("dp_shard", 4),))
HYBRID = Mesh((("dp_replicate", 2), ("dp_shard", 2)))
TENSOR = Mesh((("tp", 4),))
GRID = Mesh((("dp", 2), ("tp", 2)))


def a_case(  # noqa: PLR0913  every part of a case
    mesh: Mesh = DATA,
    batch: Placements = (S0,),
    parameters: dict[str, Placements] | None = None,
    *,
    model: Model = PERCEPTRON,
    rows: int = 8,
    training: Training | None = None,
    ignored: float = 0.0,
) -> Case:
    """A case whose unnamed parameters lie as the name "" says, or are replicated."""
    chosen = parameters or {}
    default = chosen.get("", (R,) * len(mesh.axes))
    layout = Layout(
        mesh=mesh, batch=batch, parameters={name: chosen.get(name, default) for name in model.parameters()}
    )
    data = Data(batch=rows, ignored=ignored)
    return Case(
        path="data_parallel", model=model, layout=layout, training=training or Training(steps=2), data=data
    )


CASES = {
    "data_parallel": a_case(training=Training(steps=2, optimizer="adamw")),
    "fully_sharded": a_case(
        SHARDED, (S0,), {"": (S0,)}, training=Training(steps=2, accumulation=2, clip_norm=0.25)
    ),
    "hybrid_sharded": a_case(HYBRID, (S0, S0), {"": (R, S0)}, rows=6),
    "tensor_parallel": a_case(
        TENSOR,
        (R,),
        {name: (p,) for name, p in MEGATRON.items()},
        training=Training(steps=2, optimizer="momentum"),
    ),
    "data_tensor": a_case(GRID, (S0, R), {name: (R, p) for name, p in MEGATRON.items()}, rows=5),
    "two axes on one dim": a_case(GRID, (S0, R), {"": (S0, S0)}, rows=7),
    "transformer": a_case(
        SHARDED,
        (S0,),
        {"": (S0,)},
        model=TRANSFORMER,
        training=Training(steps=2, optimizer="adam", loss="cross_entropy"),
        ignored=0.25,
    ),
}


def error(case: Case, actual: Outcome) -> float:
    """The greatest relative root mean square error of any tensor of any step."""
    expected = sandbox.run(case, "oracle")
    assert isinstance(expected, Trace)
    assert isinstance(actual, Trace), actual
    alone, worst = case.unsharded().layout.mesh, 0.0
    for before, after in zip(expected.steps, actual.steps, strict=True):
        assert before.keys() == after.keys()
        for key, tensor in before.items():
            assert after[key].misfits(case.layout.mesh) == []
            truth = tensor.full(alone)
            off = after[key].full(case.layout.mesh) - truth
            worst = max(worst, float(np.sqrt((off**2).mean() / (truth**2).mean())))
    return worst


@pytest.mark.parametrize("name", CASES)
def test_every_path_agrees_with_the_oracle(name: str) -> None:
    assert error(CASES[name], sandbox.run(CASES[name], "xla_spmd")) < TOLERANCE


def test_the_unsharded_layout_agrees_with_the_oracle() -> None:
    case = CASES["transformer"].unsharded()
    assert error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE


def test_eight_ranks_and_more_devices_than_ranks() -> None:
    case = a_case(Mesh((("dp_shard", 8),)), (S0,), {"": (S0,)})
    assert error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE
    spare = sandbox.run(CASES["data_tensor"], "xla_spmd", options={"CPU_NUM_DEVICES": "8"})
    assert error(CASES["data_tensor"], spare) < TOLERANCE


def test_an_axis_that_an_annotation_loses_is_seen_where_it_was_placed() -> None:
    nested = a_case(GRID, (S0, R), {"": (S0, S0)}, model=Model(layers=(Linear(inputs=8, outputs=8),)))
    lost = sandbox.run(nested, "xla_annotated")
    assert isinstance(lost, Trace)
    assert lost.events.misplaced["0.weight"] == Misplaced((2, 1), (4, 1))
    kept = sandbox.run(nested, "xla_spmd")
    assert isinstance(kept, Trace)
    assert not kept.events.misplaced


def test_ranks_that_do_not_fit_the_devices_are_refused_in_words() -> None:
    outcome = sandbox.run(a_case(), "xla_spmd", options={"CPU_NUM_DEVICES": "6"})
    assert isinstance(outcome, Failure)
    assert outcome.message == "the mesh dp=4 has 4 ranks; they do not divide the 6 CPU devices"


def test_replicated_parameters_have_a_piece_for_every_rank() -> None:
    outcome = sandbox.run(CASES["hybrid_sharded"], "xla_spmd")
    assert isinstance(outcome, Trace)
    weight = outcome.steps[-1][Stage.UPDATE, "0.weight"]
    assert sorted(weight.pieces) == [0, 1, 2, 3]
    for group in replica_groups(weight.placements, HYBRID):
        assert len(group) == 2
        assert np.array_equal(weight.pieces[group[0]], weight.pieces[group[1]])


def test_half_types_say_their_type_and_stay_near() -> None:
    for dtype in ("bfloat16", "float16"):
        case = a_case(SHARDED, (S0,), {"": (S0,)})
        case = Case(
            path=case.path,
            model=case.model,
            layout=case.layout,
            training=case.training,
            data=case.data,
            dtype=dtype,
        )
        outcome = sandbox.run(case, "xla_spmd")
        assert error(case, outcome) < 0.03
        assert isinstance(outcome, Trace)
        assert outcome.steps[0][Stage.UPDATE, "0.weight"].dtype == dtype


def test_what_was_seen_is_recorded() -> None:
    outcome = sandbox.run(CASES["data_parallel"], "xla_spmd")
    assert isinstance(outcome, Trace)
    assert outcome.events.graphs[0] >= 1
    assert outcome.events.fallbacks == ()
    assert outcome.events.jax_backends == ()
    assert outcome.environment["devices"] == "4"
    assert outcome.environment["matmul_precision"] == "highest"


def test_parameters_replaced_by_distributed_tensors_cannot_run() -> None:
    """pytorch/xla#8534, #9472, alive in torch_xla 2.9.0."""
    outcome = sandbox.run(CASES["fully_sharded"], "xla_dtensor")
    assert isinstance(outcome, Failure)
    assert (outcome.symptom, outcome.stage, outcome.kind) == (
        Symptom.EXCEPTION,
        Stage.FORWARD,
        "RuntimeError",
    )
    assert outcome.message.startswith(
        "!at::functionalization::impl::isFunctionalTensor(t) INTERNAL ASSERT FAILED"
    )


def test_parallelized_modules_cannot_run() -> None:
    """pytorch/xla#8528, alive in torch_xla 2.9.0; over two axes it stops at cutting the mesh."""
    one, two = (sandbox.run(CASES[name], "xla_tp") for name in ("tensor_parallel", "data_tensor"))
    assert isinstance(one, Failure)
    assert (one.symptom, one.stage, one.kind) == (Symptom.EXCEPTION, Stage.FORWARD, "AttributeError")
    assert one.message == "'DeviceMesh' object has no attribute '_coordinate_on_dim'"
    assert isinstance(two, Failure)
    assert (two.stage, two.message) == (
        Stage.PLACE,
        "'DeviceMesh' object has no attribute '_dim_group_names'",
    )


def test_a_crash_of_the_compiler_is_an_outcome_and_the_next_run_is_well() -> None:
    """The gradient of a gather along a dim that is sharded unevenly aborts XLA's partitioner."""
    training = Training(steps=1, loss="cross_entropy")
    crash = sandbox.run(a_case(rows=5, training=training), "xla_spmd")
    assert isinstance(crash, Failure)
    assert (crash.symptom, crash.kind) == (Symptom.CRASH, "SIGABRT")
    assert "ShapeUtil::IsScalarWithElementType(value.shape(), primitive_type)" in crash.message
    assert error(a_case(training=training), sandbox.run(a_case(training=training), "xla_spmd")) < TOLERANCE


def test_partition_specs_name_the_axes_of_each_dim() -> None:
    assert sharding.partition_spec(2, (S0, S1), ("dp", "tp")) == ("dp", "tp")
    assert sharding.partition_spec(2, (S0, S0), ("dp", "tp")) == (("dp", "tp"), None)
    assert sharding.partition_spec(0, (R, R), ("dp", "tp")) == ()


def test_devices_are_found_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert xla_spmd.environment(a_case())["PJRT_DEVICE"] == "TPU"
    assert "CPU_NUM_DEVICES" not in xla_spmd.environment(a_case())
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert xla_spmd.environment(a_case())["CPU_NUM_DEVICES"] == "4"


@pytest.mark.parametrize(("chips", "device"), [(8, "TPU"), (4, "TPU"), (6, "CPU"), (1, "CPU"), (0, "TPU")])
def test_ranks_that_do_not_share_the_chips_evenly_run_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, chips: int, device: str
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    monkeypatch.setattr(devices, "chips", lambda: chips)
    told = xla_spmd.environment(a_case())
    assert told["PJRT_DEVICE"] == device
    assert told.get("CPU_NUM_DEVICES", "") == ("4" if device == "CPU" else "")


def test_a_run_says_that_it_left_the_chips_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert not devices.unused_chips()
    monkeypatch.setattr(devices, "chips", lambda: 8)
    assert devices.unused_chips()["unused_chips"].startswith("8")
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert not devices.unused_chips()


def test_layouts_that_no_plan_expresses_are_unsupported() -> None:
    assert xla_tp.unsupported(CASES["tensor_parallel"]) is None
    assert xla_tp.unsupported(CASES["data_tensor"]) is None
    assert "tp" in (xla_tp.unsupported(CASES["fully_sharded"]) or "")
    assert "another axis" in (xla_tp.unsupported(CASES["two axes on one dim"]) or "")
