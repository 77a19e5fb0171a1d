"""Features of training in real processes: they agree, and a planted fault shows with its feature alone."""

import math
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Literal, TypeGuard

import msgspec
import pytest
from in_part import in_part
from real_runs import agrees, oracle_trace
from sharded_cases import PERCEPTRON, S0, a_sharded_case

from difftest.cases import features
from difftest.cases.case import Case, Training
from difftest.cases.features.optimizer import Options as OptimizerOptions
from difftest.cases.features.schedule import PERIOD, Kind
from difftest.cases.features.schedule import Options as ScheduleOptions
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption, Spelling
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from difftest.judge.outcome import Failure, Outcome
from difftest.records.evidence import DECIDED_BY
from workers import faults
from workers.backends import load
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.training import formulas  # noqa: E402
from workers.training.features import optimizer, schedule  # noqa: E402

OPTIONS: dict[str, dict[str, FeatureOption]] = {
    "activations_on_host": {},
    "added_in_place": {},
    "amsgrad": {},
    "autocast": {},
    "averaged_weights": {"decay": 0.5},
    "changed_in_place": {"by": "function"},
    "capturable": {},
    "clip_by_infinity_norm": {"norm": 0.015625},
    "clip_by_value": {"value": 0.015625},
    "communication_hook": {"kind": "allreduce"},
    "converted": {"step": 0},
    "distributed_checkpoint": {"step": 2, "resharded": True},
    "empty_group": {},
    "evaluated_before_update": {},
    "evaluation": {},
    "forward_derivative": {"factor": 0.5, "form": "dual"},
    "forwards_first": {"backward": "once"},
    "frozen": {"name": "0.weight"},
    "frozen_layers": {"first": 0, "count": 1},
    "gradient_penalty": {"factor": 0.5},
    "gradient_scaler": {"step": 1},
    "implementation": {"kind": "foreach"},
    "input_hooks": {},
    "kept_state_dict": {},
    "local_steps": {"period": 2, "step": 1, "together": 1},
    "maximize": {},
    "mixed_precision": {"reduce": "float32", "output": "policy"},
    "moved_checkpoint": {"step": 2, "layout": "whole", "files": "files", "wide": False},
    "muon": {"nesterov": True, "rate": 0.03125},
    "nesterov": {},
    "optimizer": {"kind": "adagrad", "form": "foreach", "rate": 0.0078125},
    "optimizer_event": {},
    "own_function": {"outputs": 2},
    "parameter_groups": {"decay": 0.25},
    "parameter_hooks": {"of": "gradient"},
    "reentrant_checkpoint": {},
    "retried": {"step": 0, "layer": "first", "during": "backward"},
    "save_and_load": {"step": 2},
    "schedule": {"kind": "step", "factor": 0.5},
    "sharded_optimizer": {},
    "skipped_block": {"block": "1", "parts": 2},
    "state_dict_options": {"step": 2, "form": "full"},
    "tensor_rate": {},
    "uneven_inputs": {"batches": 1, "ranks": 1, "first": True, "shrinking": False},
    "unfreezing": {"name": "0.weight", "step": 2},
    "weight_decay": {"decay": 0.25},
    "zeroed_gradients": {},
}
SOON = ("clip_by_infinity_norm", "save_and_load")
"""Run with every change: one shows a fault that is known, and the other needs a state of its own."""

KNOWN_ON_XLA = {"clip_by_infinity_norm": {"on_device"}, "reentrant_checkpoint": {"completion"}}
"""The checks that find the faults of torch_xla which the ledger knows."""

UNSUPPORTED = {
    "torch_ddp": ("capturable", "optimizer_event"),
    "xla_spmd": (
        *("communication_hook", "local_steps", "optimizer_event"),
        *("sharded_optimizer", "uneven_inputs"),
    ),
}
"""The features that a backend cannot have."""

PAIR = Mesh((("dp", 2),))
OF_ADAM = ("amsgrad", "capturable")
"""The features of Adam's cases."""

BLOCK = Residual(layers=(Linear(inputs=9, outputs=9),))
RECOMPUTED = Model(layers=(Linear(inputs=6, outputs=9), BLOCK, Linear(inputs=9, outputs=5)))


def is_unsupported(outcome: Outcome) -> TypeGuard[Failure]:
    return isinstance(outcome, Failure) and outcome.kind == "UnsupportedError"


def side_of(backend: str) -> str:
    side: str = plugins.load("workers.backends", backend).SIDE
    return side


def importable(backend: str) -> bool:
    return side_of(backend) == "torch" or find_spec("torch_xla") is not None


def with_feature(name: str) -> Case:
    kind: Literal["adam", "momentum"] = "adam" if name in OF_ADAM else "momentum"
    again = name == "reentrant_checkpoint"
    parts = 2 if name == "forwards_first" else 1
    training = Training(
        steps=4, optimizer=kind, learning_rate=0.0078125, checkpointing=again, accumulation=parts
    )
    model = RECOMPUTED if again or name in ("skipped_block", "added_in_place") else PERCEPTRON
    case = a_sharded_case(PAIR, model=model, training=training)
    if name == "optimizer_event":
        case = a_sharded_case(Mesh((("dp_shard", 2),)), parameters={"": (S0,)}, training=training)
    return msgspec.structs.replace(case, features=(Feature(name=name, options=OPTIONS[name]),))


BLOCKS = Training(steps=2, learning_rate=0.0078125, checkpointing=True)
WITH_OPTION = {
    "momentum_forgotten": a_sharded_case(PAIR, training=Training(steps=3, optimizer="momentum")),
    "norm_not_clipped": a_sharded_case(PAIR, training=Training(clip_norm=0.25)),
    "recomputed_too_great": a_sharded_case(PAIR, model=RECOMPUTED, training=BLOCKS),
    "torch_checkpoint_too_great": msgspec.structs.replace(
        a_sharded_case(PAIR, model=RECOMPUTED, training=BLOCKS), spelling=Spelling(torch_checkpoint=True)
    ),
    "unsynchronized_lost": a_sharded_case(PAIR, training=Training(accumulation=2)),
}
"""A case of every planted fault of an option of training, which that option alone makes show it."""

OF_OTHER_PATHS = (
    *("masters_rounded", "block_not_skipped", "stays_frozen", "kept_copy"),
    *("state_without_optimizer", "frozen_layers_trained", "last_of_bucket_lost", "averaged_early"),
    *("final_model_not_sent", "moved_in_bfloat16", "event_loses_update", "orthogonal_steps_short"),
    *("last_loss_forgotten", "halved_by_own_function", "hooks_without_effect"),
    *("slope_without_gradient", "derivative_without_gradient", "converted_through_bfloat16"),
    *("parameter_hooks_without_effect", "last_before_empty_group_lost"),
    *("added_twice", "gradients_of_a_metric", "gradients_of_an_attempt_kept"),
    "changed_twice",
)
"""The planted faults of features that other paths than `features` alone draw, one for each."""

FAULTS = {
    name: fault
    for name, fault in faults.all_faults().items()
    if (fault.paths == ("features",) or name in OF_OTHER_PATHS) and name not in WITH_OPTION
}


def test_every_feature_has_a_case_and_a_planted_fault() -> None:
    assert set(OPTIONS) == set(features.names())
    for name in OPTIONS:
        assert any(fault.reaches(with_feature(name)) for fault in FAULTS.values()), name


@pytest.mark.parametrize("fault", in_part(FAULTS, 3))
def test_a_planted_fault_shows_with_one_feature_only(fault: str) -> None:
    reached = [name for name in OPTIONS if FAULTS[fault].reaches(with_feature(name))]
    assert len(reached) == 1
    case = with_feature(reached[0])
    fitting = (name for name in FAULTS[fault].backends if not load(name).unsupported(case))
    backend = next(fitting, "torch_ddp")  # the case has replicas, which a backend of stages does not take
    if not importable(backend):
        pytest.skip(f"{backend} needs torch_xla: pip install 'difftest[xla]'")
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: fault})
    assert compare(case, backend, side_of(backend), oracle_trace(case), outcome).verdict == "diverge"


@pytest.mark.parametrize("fault", WITH_OPTION)
def test_a_planted_fault_of_an_option_shows_with_it_and_the_case_agrees_without_the_fault(fault: str) -> None:
    case = WITH_OPTION[fault]
    assert faults.all_faults()[fault].reaches(case)
    assert not faults.all_faults()[fault].reaches(a_sharded_case(PAIR, training=Training(steps=3)))
    outcome = sandbox.run(case, "torch_ddp", options={faults.VARIABLE: fault})
    assert compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).verdict == "diverge"
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


@pytest.mark.xla
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOON else pytest.mark.nightly) for name in OPTIONS]
)
def test_a_feature_agrees_under_spmd(name: str) -> None:
    case = with_feature(name)
    outcome = sandbox.run(case, "xla_spmd")
    if name in UNSUPPORTED["xla_spmd"]:
        assert is_unsupported(outcome)
        return
    comparison = compare(case, "xla_spmd", "xla", oracle_trace(case), outcome)
    assert {divergence.check for divergence in comparison.divergences} == KNOWN_ON_XLA.get(name, set())
    assert comparison.verdict == ("diverge" if name in KNOWN_ON_XLA else "agree")


@pytest.mark.parametrize("kind", sorted(optimizer.CLASSES))
def test_asgd_and_adafactor_alone_read_numbers_on_the_device(kind: str) -> None:
    parameter = torch.zeros(3, device="meta", requires_grad=True)
    parameter.grad = torch.zeros(3, device="meta")
    made = optimizer.CLASSES[kind]([parameter], lr=0.5, foreach=False)
    reads = kind in {"asgd", "adafactor"}
    with pytest.raises(RuntimeError, match="cannot be called on meta") if reads else nullcontext():
        made.step()
    hooks = optimizer.hooks(msgspec.convert({"kind": kind, "form": "loop", "rate": 0.5}, OptimizerOptions))
    assert hooks.leaves_device == reads


def with_optimizer(kind: str) -> Case:
    feature = Feature(name="optimizer", options={"kind": kind, "form": "foreach", "rate": 0.0078125})
    return msgspec.structs.replace(with_feature("optimizer"), features=(feature,))


@pytest.mark.xla
@pytest.mark.nightly
@pytest.mark.parametrize("kind", sorted(optimizer.CLASSES))
def test_an_optimizer_agrees_under_spmd(kind: str) -> None:
    case = with_optimizer(kind)
    comparison = compare(case, "xla_spmd", "xla", oracle_trace(case), sandbox.run(case, "xla_spmd"))
    known = {"recompile", "on_device"} if kind == "rprop" else set()
    assert {divergence.check for divergence in comparison.divergences} == known


@pytest.mark.xla
@pytest.mark.parametrize("backend", ["xla_replica", "xla_compile"])
@pytest.mark.parametrize(
    "case",
    [*map(with_optimizer, ("asgd", "adafactor", "rprop")), with_feature("clip_by_infinity_norm")],
    ids=["asgd", "adafactor", "rprop", "clip_by_infinity_norm"],
)
def test_what_reads_values_within_a_step_is_refused_where_that_would_abort(case: Case, backend: str) -> None:
    outcome = sandbox.run(case, backend)
    assert is_unsupported(outcome)
    assert "a feature reads values on the host within a step" in outcome.message


def test_what_is_converted_behind_ddp_is_not_averaged_and_known() -> None:
    case = with_feature("converted")
    outcome = sandbox.run(case, "torch_ddp")
    shown = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(shown[0], case, utc_today(), {DECIDED_BY: "feature.converted"})
    assert entry
    assert entry.upstream.endswith("converted_behind_ddp.py")


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "converted"])
def test_a_feature_agrees_on_replicas(name: str) -> None:
    case = with_feature(name)
    outcome = sandbox.run(case, "torch_ddp")
    assert is_unsupported(outcome) if name in UNSUPPORTED["torch_ddp"] else agrees(case, "torch_ddp", outcome)


@pytest.mark.parametrize("backend", ["torch_dtensor", "torch_fsdp"])
def test_a_distributed_checkpoint_of_shards_is_loaded_in_other_pieces(backend: str) -> None:
    training = Training(steps=3, optimizer="adam", learning_rate=0.0078125)
    case = a_sharded_case(Mesh((("dp_shard", 2),)), parameters={"": (S0,)}, training=training)
    used = Feature(name="distributed_checkpoint", options={"step": 1, "resharded": True})
    case = msgspec.structs.replace(case, features=(used,))
    assert agrees(case, backend, sandbox.run(case, backend))


@pytest.mark.parametrize("kind", sorted(optimizer.CLASSES))
def test_the_formula_of_an_optimizer_is_that_of_torchs_class(kind: str) -> None:
    numbers = torch.Generator().manual_seed(0)
    ours, torchs = (torch.nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    first, second = (
        formulas.ByFormula([ours], lr=0.0625, kind=kind),
        optimizer.CLASSES[kind]([torchs], lr=0.0625),
    )
    for _ in range(8):
        ours.grad = torchs.grad = torch.randn(5, dtype=torch.float64, generator=numbers)
        first.step()
        second.step()
    assert torch.allclose(ours, torchs, rtol=1e-7, atol=0.0)


# torch is wrong in the other kind: known/sequential_lr_of_milestone_zero.py
@pytest.mark.parametrize("kind", sorted({*schedule.FORMULAS} - {"unwarmed"}))
def test_the_formula_of_a_schedule_is_that_of_torchs_scheduler(kind: str) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    scheduler = schedule.SCHEDULERS[kind](optimizer, 0.75)
    for step in range(PERIOD + 1):
        assert math.isclose(optimizer.param_groups[0]["lr"], 0.125 * schedule.FORMULAS[kind](0.75, step))
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("kind", sorted(schedule.FORMULAS))
@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
def test_a_script_makes_the_scheduler_of_a_worker_whatever_the_rate_of_its_optimizer(
    kind: Kind, tensor: bool
) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    rates = [torch.tensor(0.25) if tensor else 0.25 for _ in range(2)]
    written, made = (torch.optim.SGD([weight], lr=rate) for rate in rates)
    scheduler = schedule.SCHEDULERS[kind](made, 0.75)
    names = {"torch": torch, "optimizer": written}
    lines = ScheduleOptions(kind=kind, factor=0.75).spelled(Training(learning_rate=0.125))
    exec("\n".join(lines.begun), names)  # noqa: S102  our own lines
    for _ in range(PERIOD + 1):
        assert math.isclose(written.param_groups[0]["lr"], made.param_groups[0]["lr"])
        written.step()
        made.step()
        scheduler.step()
        exec("\n".join(lines.after), names)  # noqa: S102  our own lines
