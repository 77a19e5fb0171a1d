"""Steps that people write themselves in real processes: they agree, or show what the ledger knows."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pytest
from in_part import in_part
from installed_packages import needs
from real_runs import agrees, oracle_trace, together
from sharded_cases import S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh, Placement, Placements, Shard
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption, Replication
from difftest.cases.wrapping import Sharding
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome
from difftest.records.evidence import DECIDED_BY
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

DDP, FSDP, TP = "torch_ddp", "torch_fsdp", "torch_tp"
STEPS = Training(steps=2, optimizer="momentum", learning_rate=0.0625)
MODEL = Model(
    layers=(
        Linear(inputs=6, outputs=8),
        Activation(function="tanh"),
        Residual(layers=(Linear(inputs=8, outputs=8),)),
        Linear(inputs=8, outputs=4),
    )
)
NORMALIZED = Model(layers=(Linear(inputs=6, outputs=8), LayerNorm(width=8), Linear(inputs=8, outputs=4)))
CUT: dict[str, Placement] = {"0.weight": S0, "0.bias": S0, "2.0.weight": Shard(1)}
Options: TypeAlias = Mapping[str, FeatureOption]
PENALTY: Options = {"factor": 0.5}
HOOKS: Options = {"of": "gradient"}
DUAL: Options = {"factor": 0.5, "form": "dual"}
FUNCTION: Options = {"factor": 0.5, "form": "func"}
FORWARD: Options = {"step": 0, "layer": "first", "during": "forward"}
FIRST: Options = {"step": 0, "layer": "first", "during": "backward"}
LAST: Options = {"step": 0, "layer": "last", "during": "backward"}


def with_step(
    axis: str,
    feature: str,
    options: Options,
    beside: Options | None = None,
    model: Model = MODEL,
    **parts: Any,  # noqa: ANN401  a case's
) -> Case:
    """Replicated, sharded, or cut by `tp`; `beside`: with `state_dict_options` too."""
    placed: dict[str, Placements] = {"": (S0,)} if axis == "dp_shard" else {}
    placed |= {name: (at,) for name, at in CUT.items()} if axis == "tp" else {}
    batch: Placements = (R,) if axis == "tp" else (S0,)
    case = a_sharded_case(Mesh(((axis, 2),)), batch, placed, model=model, training=STEPS)
    used: tuple[Feature, ...] = (Feature(name=feature, options={**options}),)
    if beside:
        used = (*used, Feature(name="state_dict_options", options={**beside}))
    return msgspec.structs.replace(case, path="own_steps", features=used, **parts)


KEPT = Sharding(kept_in_step=True, wrapped="layers")
AGREEING = {
    DDP: (
        with_step("dp", "gradient_penalty", PENALTY),
        with_step("dp", "forward_derivative", DUAL),
        with_step("dp", "zeroed_gradients", {"by": "model", "place": "forward"}),
        with_step("dp", "schedule", {"kind": "one_cycle", "factor": 0.5}),
        with_step("dp", "clip_by_infinity_norm", {"norm": 0.015625, "order": 0.0}),
        with_step("dp", "optimizer", {"kind": "adagrad", "form": "fused", "rate": 0.0078125}),
        with_step("dp", "parameter_hooks", HOOKS),
        with_step("dp", "parameter_hooks", {"of": "sum"}),
        with_step("dp", "added_in_place", {}),
        with_step("dp", "changed_in_place", {"by": "function"}),
        with_step("dp", "changed_in_place", {"by": "view"}),
        with_step("dp", "empty_group", {}),
        with_step("dp", "empty_group", {"first": True}),
        with_step("dp", "evaluated_before_update", {}),
        with_step("dp", "retried", FORWARD),
        with_step("dp", "retried", LAST),
    ),
    FSDP: (
        with_step("dp_shard", "gradient_penalty", PENALTY, sharding=KEPT),
        with_step("dp_shard", "parameter_hooks", {"of": "sum"}),
        with_step("dp_shard", "added_in_place", {}),
        with_step("dp_shard", "changed_in_place", {"by": "returned"}),
        with_step("dp_shard", "empty_group", {}, {"step": 1, "form": "offloaded"}),
        with_step("dp_shard", "evaluated_before_update", {}, sharding=Sharding(wrapped="layers")),
        with_step("dp_shard", "retried", FORWARD),
    ),
    TP: (
        with_step("tp", "parameter_hooks", HOOKS),
        with_step("tp", "changed_in_place", {"by": "function"}),
        with_step("tp", "empty_group", {}),
        with_step("tp", "retried", FIRST),
    ),
}
KNOWN = {
    "slope_penalty_in_fsdp": (FSDP, with_step("dp_shard", "gradient_penalty", PENALTY), ""),
    "slope_penalty_in_tensor_parallelism": (
        TP,
        with_step("tp", "gradient_penalty", PENALTY),
        "feature.gradient_penalty",
    ),
    "static_graph_with_a_slope_penalty": (
        DDP,
        with_step("dp", "gradient_penalty", PENALTY, replication=Replication(static_graph=True)),
        "replication.static_graph=True",
    ),
    "forward_mode_in_ddp_again": (DDP, with_step("dp", "forward_derivative", FUNCTION), ""),
    "forward_mode_in_ddp": (
        DDP,
        with_step("dp", "forward_derivative", DUAL, replication=Replication(static_graph=True)),
        "",
    ),
    "forward_mode_in_fsdp": (FSDP, with_step("dp_shard", "forward_derivative", FUNCTION), ""),
    "dual_numbers_in_fsdp": (
        FSDP,
        with_step("dp_shard", "forward_derivative", DUAL, sharding=Sharding(wrapped="layers")),
        "",
    ),
    "dual_numbers_in_fsdp1": (
        "torch_fsdp1",
        with_step("dp_shard", "forward_derivative", DUAL, sharding=Sharding(wrapped="layers")),
        "",
    ),
    "forward_mode_in_tensor_parallelism": (TP, with_step("tp", "forward_derivative", DUAL), ""),
    "forward_mode_on_dtensor": ("torch_dtensor", with_step("dp", "forward_derivative", FUNCTION), ""),
    "layer_norm_in_forward_mode": (
        DDP,
        with_step("dp", "forward_derivative", DUAL, model=NORMALIZED),
        "feature.forward_derivative",
    ),
    "compiled_own_function_in_place": (
        "torch_compile",
        with_step("dp", "changed_in_place", {"by": "function"}),
        "feature.changed_in_place",
    ),
    "parameter_hook_in_fsdp": (
        FSDP,
        with_step("dp_shard", "parameter_hooks", HOOKS),
        "feature.parameter_hooks",
    ),
    "evaluation_ahead_of_an_update_on_fsdp": (
        FSDP,
        with_step("dp_shard", "evaluated_before_update", {}),
        "feature.evaluated_before_update",
    ),
    "sequential_lr_of_milestone_zero": (
        DDP,
        with_step("dp", "schedule", {"kind": "unwarmed", "factor": 0.5}),
        "feature.schedule",
    ),
    "zero_grad_behind_forward_on_fsdp2": (
        FSDP,
        with_step("dp_shard", "zeroed_gradients", {"by": "model", "place": "forward"}),
        "feature.zeroed_gradients",
    ),
    "clip_by_zero_norm_on_dtensor": (
        FSDP,
        with_step("dp_shard", "clip_by_infinity_norm", {"norm": 0.015625, "order": 0.0}),
        "feature.clip_by_infinity_norm",
    ),
    "fused_adagrad_on_dtensor": (
        "torch_dtensor",
        with_step("dp", "optimizer", {"kind": "adagrad", "form": "fused", "rate": 0.0078125}),
        "",
    ),
    "backward_tried_again_on_fsdp2": (
        FSDP,
        with_step("dp_shard", "retried", LAST, sharding=Sharding(wrapped="whole")),
        "feature.retried",
    ),
    "backward_tried_again_on_fsdp1": (
        "torch_fsdp1",
        with_step("dp_shard", "retried", FIRST),
        "feature.retried",
    ),
    "backward_tried_again_on_ddp": (DDP, with_step("dp", "retried", FIRST), ""),
    "backward_tried_again_on_ddp_of_a_static_graph": (
        DDP,
        with_step("dp", "retried", LAST, replication=Replication(static_graph=True)),
        "feature.retried",
    ),
    "view_changed_behind_fsdp": (
        FSDP,
        with_step("dp_shard", "added_in_place", {}, sharding=Sharding(wrapped="layers")),
        "",
    ),
    "state_of_an_empty_first_group": (
        FSDP,
        with_step("dp_shard", "empty_group", {"first": True}, {"step": 1, "form": "offloaded"}),
        "",
    ),
    "full_and_flattened_optimizer_state": (
        FSDP,
        with_step("dp_shard", "parameter_hooks", {"of": "sum"}, {"step": 1, "form": "whole_flattened"}),
        "",
    ),
    "state_of_an_empty_group": (
        FSDP,
        with_step("dp_shard", "empty_group", {}, {"step": 1, "form": "flattened"}),
        "",
    ),
}


def verdict(case: Case, backend: str, outcome: Outcome) -> str:
    return compare(case, backend, "torch", oracle_trace(case), outcome).verdict


@pytest.mark.parametrize("backend", AGREEING)
def test_such_steps_agree(backend: str) -> None:
    outcomes = together(AGREEING[backend], backend)
    wrong = [
        (case.training_features, outcome)
        for case, outcome in zip(AGREEING[backend], outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, backend, outcome)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", in_part(KNOWN, 2))
def test_a_fault_of_torch_shows_in_such_a_step_and_is_known(name: str) -> None:
    backend, case, option = KNOWN[name]
    divergences = compare(case, backend, "torch", oracle_trace(case), sandbox.run(case, backend)).divergences
    ledger = read_ledger()
    if option:
        assert ledger.entry(divergences[0], case, utc_today()) is None
    entry = ledger.entry(divergences[0], case, utc_today(), {DECIDED_BY: option} if option else {})
    assert entry
    assert entry.upstream.endswith(f"{name}.py")


def test_parameters_that_are_never_sharded_again_are_those_of_the_first_step() -> None:
    case = with_step("dp_shard", "gradient_penalty", PENALTY, sharding=KEPT)
    outcome = sandbox.run(case, FSDP, options={faults.VARIABLE: "never_resharded"})
    assert verdict(case, FSDP, outcome) == "diverge"
