"""How SPMD programs start on XLA, in real processes: allowed orders agree, and one order crashes."""

import shutil
from typing import Any

import msgspec
import pytest
from installed_packages import needs, skip_without
from real_runs import greatest_relative_error
from sharded_cases import CASES, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.model import Model
from difftest.cases.options import ACTS, Start
from difftest.judge.comparator import Comparison, compare
from difftest.judge.divergence import identity
from difftest.judge.outcome import Failure, Symptom, Trace
from difftest.judge.stage import Stage
from workers.faults import VARIABLE
from workers.isolate import sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    skip_without("torch_xla"),
]

TOLERANCE = 2e-6
EXECUTE = "torch_xla::runtime::PjRtComputationClient::ExecuteReplicated"
BLOCKS = Model(
    layers=(
        Linear(inputs=6, outputs=6),
        Residual(layers=(Linear(inputs=6, outputs=6), Activation(function="tanh"))),
    )
)


def started(name: str, training: Training | None = None, **start: Any) -> Case:  # noqa: ANN401
    case = msgspec.structs.replace(CASES[name], start=Start(**start))
    return msgspec.structs.replace(case, training=training) if training else case


def compared(case: Case, fault: str = "") -> Comparison:
    actual = sandbox.run(case, "xla_spmd", options={VARIABLE: fault} if fault else {})
    return compare(case, "xla_spmd", "xla", sandbox.run(case, "oracle"), actual)


@pytest.mark.parametrize(
    "case",
    [
        started("data_parallel", acts=("mesh", "spmd", "device", "seed")),
        started("fully_sharded", marked="before", asynchronous=False),
        started("data_tensor", replicated="unmarked"),
        started(
            "transformer", acts=("spmd", "seed", "device", "mesh"), marked="before", replicated="unmarked"
        ),
    ],
    ids=["mesh first", "sent in pieces", "replicas unmarked", "all"],
)
def test_allowed_start_orders_agree_with_the_oracle(case: Case) -> None:
    assert greatest_relative_error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE


@pytest.mark.parametrize("first", ["device", "seed"])
def test_a_device_used_before_spmd_is_enabled_is_an_identified_segmentation_fault(first: str) -> None:
    """pytorch/xla#9735, in torch_xla 2.9.0: identified by signal, stage and native function, on any path."""
    acts = (first, *(act for act in ACTS if act != first))
    died = [sandbox.run(started(name, acts=acts), "xla_spmd") for name in ("data_parallel", "transformer")]
    for outcome in died:
        assert isinstance(outcome, Failure)
        assert (outcome.symptom, outcome.kind, outcome.stage) == (Symptom.CRASH, "SIGSEGV", Stage.BACKWARD)
        assert outcome.frame == EXECUTE or not shutil.which("cc")
    assert len({identity(outcome) for outcome in died if isinstance(outcome, Failure)}) == 1


@pytest.mark.parametrize("name", ["fully_sharded", "tensor_parallel", "transformer"])
def test_a_batch_scanned_by_torch_xla_agrees_with_the_oracle(name: str) -> None:
    training = msgspec.structs.replace(CASES[name].training, accumulation=2)
    case = started(name, training, accumulation="scan")
    assert greatest_relative_error(case, sandbox.run(case, "xla_spmd")) < TOLERANCE


@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor", "xla_spmd"])
def test_checkpointed_blocks_agree_with_the_oracle(backend: str) -> None:
    case = a_sharded_case(model=BLOCKS, training=Training(steps=2, checkpointing=True))
    outcome = sandbox.run(case, backend)
    assert greatest_relative_error(case, outcome) < TOLERANCE


def test_one_client_is_created_and_graphs_settle() -> None:
    outcome = sandbox.run(started("data_parallel", Training(steps=5, optimizer="adam")), "xla_spmd")
    assert isinstance(outcome, Trace)
    assert [(client.library, client.platform) for client in outcome.events.clients] == [("torch_xla", "CPU")]
    assert len(set(outcome.events.graphs[1:])) == 1


@pytest.mark.parametrize(
    ("fault", "check"),
    [("jax_unguarded", "runtime_init"), ("jax_twice", "runtime_init"), ("recompile", "recompile")],
)
def test_runtime_faults_without_wrong_numbers_are_detected(fault: str, check: str) -> None:
    if fault.startswith("jax"):
        needs("jax", reason="needs jax: pip install 'difftest[flash]'")
    comparison = compared(started("data_parallel", Training(steps=5)), fault)
    assert {divergence.check for divergence in comparison.divergences} == {check}


def test_a_correct_run_has_no_runtime_fault() -> None:
    assert compared(started("data_parallel", Training(steps=5))).verdict == "agree"
