"""Compiled backends against the oracle, in real processes: they agree, and what is wrong in them is found."""

import pytest
from real_runs import agrees, oracle_trace
from sharded_cases import S0, S1, R, a_sharded_case

from difftest.cases.case import Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh, Placements
from difftest.cases.model import Model
from difftest.judge.comparator import compare
from difftest.judge.events import Events
from difftest.judge.outcome import Trace
from workers import faults
from workers.backends import candidates, load
from workers.isolate import sandbox

COMPILE_SECONDS = 400.0
"""For a C++ compiler that has nothing of an earlier run, on a busy machine."""

IN_BLOCKS = Model(
    layers=(
        Linear(inputs=6, outputs=8),
        Residual(
            layers=(Linear(inputs=8, outputs=8), Activation(function="tanh"), Linear(inputs=8, outputs=8))
        ),
        Linear(inputs=8, outputs=4),
    )
)
CUT: dict[str, Placements] = {"0.weight": (S1,), "1.0.weight": (S0,), "1.0.bias": (S0,), "1.2.weight": (S1,)}
STEPS = Training(steps=5, optimizer="adamw", accumulation=2)
CASE = a_sharded_case(Mesh((("dp", 2),)), training=STEPS)
SHARDED = a_sharded_case(Mesh((("dp_shard", 2),)), (S0,), {"": (S0,)}, training=STEPS)
TENSOR_PARALLEL = a_sharded_case(Mesh((("tp", 2),)), (R,), CUT, model=IN_BLOCKS, training=STEPS)
CASES = {
    "torch_compile_fsdp": SHARDED,
    "torch_simple_fsdp": SHARDED,
    "torch_compile_dtensor": TENSOR_PARALLEL,
    "torch_compile_tp": TENSOR_PARALLEL,
    "torch_compile_blocks_tp": TENSOR_PARALLEL,
}

BACKENDS = (
    pytest.param("torch_compile", marks=pytest.mark.nightly),
    pytest.param("torch_compile_fsdp", marks=pytest.mark.nightly),
    pytest.param("torch_compile_dtensor", marks=pytest.mark.nightly),
    pytest.param("torch_compile_tp", marks=pytest.mark.nightly),
    "torch_compile_blocks_tp",
    "torch_simple_fsdp",
    pytest.param("xla_compile", marks=pytest.mark.xla),
)


def test_breaks_of_two_ranks_are_merged() -> None:
    one, other = Events(breaks={"print": 2}), Events(breaks={"print": 1, "item": 3})
    assert one.merged(other).breaks == {"item": 3, "print": 2}


@pytest.mark.parametrize("backend", [*CASES, "torch_compile", "torch_replicate", "xla_compile", "xla_dynamo"])
def test_they_run_only_if_named(backend: str) -> None:
    assert backend not in candidates()
    assert list(candidates((backend,))) == [backend]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_compiled_agrees_with_the_oracle_and_is_compiled_once(backend: str) -> None:
    case = CASES.get(backend, CASE)
    outcome = sandbox.run(case, backend, deadline=COMPILE_SECONDS)
    assert isinstance(outcome, Trace), outcome
    comparison = compare(case, backend, load(backend).SIDE, oracle_trace(case), outcome)
    assert comparison.verdict == "agree", comparison.divergences[:1]
    graphs = outcome.events.graphs
    assert len(graphs) == case.training.steps
    assert 0 < graphs[0] <= graphs[-1] == graphs[2], graphs


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_planted_fault_of_a_compiled_backend_is_found(backend: str) -> None:
    options = {faults.VARIABLE: "gradient_negated"}
    case = CASES.get(backend, CASE)
    outcome = sandbox.run(case, backend, deadline=COMPILE_SECONDS, options=options)
    comparison = compare(case, backend, load(backend).SIDE, oracle_trace(case), outcome)
    assert comparison.divergences[0].check == "gradients"


@pytest.mark.slow
@pytest.mark.xla
def test_a_step_of_two_parts_is_one_graph() -> None:
    outcome = sandbox.run(CASE, "xla_compile")
    assert isinstance(outcome, Trace), outcome
    assert outcome.events.executed == outcome.events.requested == (1, 2, 3, 4, 5)


@pytest.mark.slow
@pytest.mark.xla
def test_openxla_agrees_in_one_step_and_keeps_the_first_batch_after_it() -> None:
    one = a_sharded_case(Mesh((("dp", 2),)), training=Training(steps=1))
    assert agrees(one, "xla_dynamo", sandbox.run(one, "xla_dynamo"))
    two = a_sharded_case(Mesh((("dp", 2),)), training=Training(steps=2))
    comparison = compare(two, "xla_dynamo", "xla", oracle_trace(two), sandbox.run(two, "xla_dynamo"))
    first = comparison.divergences[0]
    assert (first.check, first.step, first.tensor) == ("gradients", 1, "0.weight")
