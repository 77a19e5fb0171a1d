"""The XLA backends in real processes, against the oracle."""

import numpy as np
import pytest
from installed_packages import skip_without
from real_runs import greatest_relative_error
from sharded_cases import CASES, GRID, HYBRID, S0, S1, SHARDED, TOLERANCE, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh, replica_groups
from difftest.cases.model import Model
from difftest.judge.events import Misplaced
from difftest.judge.outcome import Failure, Symptom, Trace
from difftest.judge.stage import Stage
from workers.backends import xla_spmd, xla_tp
from workers.isolate import sandbox
from workers.xla import devices, sharding

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    skip_without("torch_xla"),
]


@pytest.mark.parametrize("name", CASES)
def test_every_path_agrees_with_the_oracle(name: str) -> None:
    assert greatest_relative_error(CASES[name], sandbox.run(CASES[name], "xla_spmd")) < TOLERANCE


def test_the_unsharded_layout_agrees_with_the_oracle() -> None:
    case = CASES["transformer"].unsharded()
    assert greatest_relative_error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE


def test_eight_ranks_and_spare_devices_agree_with_the_oracle() -> None:
    case = a_sharded_case(Mesh((("dp_shard", 8),)), (S0,), {"": (S0,)})
    assert greatest_relative_error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE
    spare = sandbox.run(CASES["data_tensor"], "xla_spmd", options={"CPU_NUM_DEVICES": "8"})
    assert greatest_relative_error(CASES["data_tensor"], spare) < TOLERANCE


def test_an_axis_that_an_annotation_loses_is_recorded_as_misplaced() -> None:
    nested = a_sharded_case(GRID, (S0, R), {"": (S0, S0)}, model=Model(layers=(Linear(inputs=8, outputs=8),)))
    lost = sandbox.run(nested, "xla_annotated")
    assert isinstance(lost, Trace)
    assert lost.events.misplaced["0.weight"] == Misplaced((2, 1), (4, 1))
    kept = sandbox.run(nested, "xla_spmd")
    assert isinstance(kept, Trace)
    assert not kept.events.misplaced


def test_ranks_that_do_not_fit_the_devices_are_refused_with_the_reason() -> None:
    outcome = sandbox.run(a_sharded_case(), "xla_spmd", options={"CPU_NUM_DEVICES": "6"})
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


def test_half_types_record_their_dtype_and_stay_near() -> None:
    for dtype in ("bfloat16", "float16"):
        case = a_sharded_case(SHARDED, (S0,), {"": (S0,)})
        case = Case(
            path=case.path,
            model=case.model,
            layout=case.layout,
            training=case.training,
            data=case.data,
            dtype=dtype,
        )
        outcome = sandbox.run(case, "xla_spmd")
        assert greatest_relative_error(case, outcome) < 0.03
        assert isinstance(outcome, Trace)
        assert outcome.steps[0][Stage.UPDATE, "0.weight"].dtype == dtype


def test_events_and_environment_of_a_run_are_recorded() -> None:
    outcome = sandbox.run(CASES["data_parallel"], "xla_spmd")
    assert isinstance(outcome, Trace)
    assert outcome.events.graphs[0] >= 1
    assert outcome.events.host_operators == {}
    assert outcome.events.device == "xla"
    assert outcome.events.executed == outcome.events.requested
    assert outcome.events.jax_backends == ()
    assert outcome.environment["devices"] == "4"
    assert outcome.environment["matmul_precision"] == "highest"


def test_parameters_replaced_by_dtensors_fail() -> None:
    """pytorch/xla#8534 and #9472, in torch_xla 2.9.0."""
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


def test_parallelized_modules_fail() -> None:
    """pytorch/xla#8528, in torch_xla 2.9.0; over two axes it fails already when it slices the mesh."""
    one, two = (sandbox.run(CASES[name], "xla_tp") for name in ("tensor_parallel", "data_tensor"))
    assert isinstance(one, Failure)
    assert (one.symptom, one.stage, one.kind) == (Symptom.EXCEPTION, Stage.FORWARD, "AttributeError")
    assert one.message == "'DeviceMesh' object has no attribute '_coordinate_on_dim'"
    assert isinstance(two, Failure)
    assert (two.stage, two.message) == (
        Stage.PLACE,
        "'DeviceMesh' object has no attribute '_dim_group_names'",
    )


def test_a_compiler_crash_is_an_outcome_and_the_next_run_succeeds() -> None:
    """The gradient of a gather along a dim that is sharded unevenly aborts XLA's partitioner."""
    training = Training(steps=1, loss="cross_entropy")
    crash = sandbox.run(a_sharded_case(rows=5, training=training), "xla_spmd")
    assert isinstance(crash, Failure)
    assert (crash.symptom, crash.kind) == (Symptom.CRASH, "SIGABRT")
    assert "ShapeUtil::IsScalarWithElementType(value.shape(), primitive_type)" in crash.message
    assert (
        greatest_relative_error(
            a_sharded_case(training=training), sandbox.run(a_sharded_case(training=training), "xla_spmd")
        )
        < TOLERANCE
    )


def test_partition_specs_name_the_axes_of_each_dim() -> None:
    assert sharding.partition_spec(2, (S0, S1), ("dp", "tp")) == ("dp", "tp")
    assert sharding.partition_spec(2, (S0, S0), ("dp", "tp")) == (("dp", "tp"), None)
    assert sharding.partition_spec(0, (R, R), ("dp", "tp")) == ()


def test_the_devices_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert xla_spmd.environment(a_sharded_case())["PJRT_DEVICE"] == "TPU"
    assert "CPU_NUM_DEVICES" not in xla_spmd.environment(a_sharded_case())
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert xla_spmd.environment(a_sharded_case())["CPU_NUM_DEVICES"] == "4"


@pytest.mark.parametrize(("chips", "device"), [(8, "TPU"), (4, "TPU"), (6, "CPU"), (1, "CPU"), (0, "TPU")])
def test_ranks_that_do_not_share_the_chips_evenly_run_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, chips: int, device: str
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    monkeypatch.setattr(devices, "chips", lambda: chips)
    variables = xla_spmd.environment(a_sharded_case())
    assert variables["PJRT_DEVICE"] == device
    assert variables.get("CPU_NUM_DEVICES", "") == ("4" if device == "CPU" else "")


def test_a_run_records_that_it_left_the_chips_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert not devices.unused_chips()
    monkeypatch.setattr(devices, "chips", lambda: 8)
    assert devices.unused_chips()["unused_chips"].startswith("8")
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert not devices.unused_chips()


def test_layouts_that_no_plan_can_express_are_unsupported() -> None:
    assert xla_tp.unsupported(CASES["tensor_parallel"]) is None
    assert xla_tp.unsupported(CASES["data_tensor"]) is None
    assert "tp" in (xla_tp.unsupported(CASES["fully_sharded"]) or "")
    assert "another axis" in (xla_tp.unsupported(CASES["two axes on one dim"]) or "")
