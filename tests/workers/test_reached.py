"""What a run reached: the operators that each framework's own dispatcher was given in a real run."""

from pathlib import Path

import pytest
from real_runs import oracle_trace
from sample_programs import a_program, an_operator
from samples import DEEP, a_case

from difftest.cases.case import Case
from difftest.cases.layers.operator import Reference
from difftest.cases.layout import Replicate, Shard
from difftest.judge.events import Events
from difftest.judge.outcome import Trace
from difftest.judge.reached import Reached
from difftest.records import traces
from workers.isolate import sandbox

CASE = a_case(
    DEEP, mesh=(("tp", 2),), batch=(Replicate(),), sharded={"0.weight": (Shard(0),), "0.bias": (Shard(0),)}
)


PROGRAM = a_program(
    an_operator("exp"),
    an_operator("mul", operands={}, arguments=(Reference("0.output"), 2.0)),
    an_operator("neg"),
    sharded={"0.input": (Shard(0),)},
)


def reached(backend: str, case: Case = CASE) -> Reached:
    outcome = sandbox.run(case, backend, deadline=120.0)
    assert isinstance(outcome, Trace), outcome
    return outcome.events.reached


def test_what_two_processes_reached_is_united() -> None:
    one = Events(reached=Reached(forward={"": ("add", "mm")}, rules=("mm R,R>R",)))
    other = Events(reached=Reached(forward={"": ("mul",)}, backward={"0": ("mm",)}, eager=True))
    assert one.merged(other).reached == Reached(
        forward={"": ("add", "mm", "mul")}, backward={"0": ("mm",)}, rules=("mm R,R>R",), eager=True
    )


def test_what_was_reached_comes_back_from_a_file(tmp_path: Path) -> None:
    events = Events(reached=Reached(forward={"0": ("add",)}, rules=("add S0,R>S0",), lowered=("aten::add",)))
    traces.save(tmp_path / "run", Trace(steps=(), events=events))
    outcome = traces.load(tmp_path / "run")
    assert isinstance(outcome, Trace)
    assert outcome.events == events


@pytest.mark.slow
def test_the_oracle_says_which_operators_torch_dispatches_forward_and_backward() -> None:
    names = oracle_trace(CASE).events.reached
    assert {"addmm", "relu", "mm", "pow", "sum"} <= {*names.forward[""]}
    assert {"threshold_backward", "mm", "mul"} <= {*names.backward[""]}
    assert "threshold_backward" not in names.forward[""]


@pytest.mark.slow
def test_dtensor_says_with_which_placements_its_rules_were_used() -> None:
    names = reached("torch_dtensor")
    assert names.eager
    assert "relu S1>S1" in names.rules
    assert "threshold_backward R,S1>S1" in names.rules


@pytest.mark.slow
@pytest.mark.xla
def test_torch_xla_says_which_operators_it_counted_and_which_nodes_it_lowered() -> None:
    names = reached("xla_spmd")
    assert {"addmm", "relu", "sum"} <= {*names.forward[""]}
    assert "threshold_backward" in names.backward[""]
    assert "threshold_backward" not in names.forward[""]
    assert {"aten::addmm", "aten::threshold_backward", "xla::device_data"} <= {*names.lowered}
    assert not names.eager


@pytest.mark.slow
def test_of_a_program_the_oracle_says_which_layer_dispatched_what_and_dtensor_its_rules() -> None:
    names = oracle_trace(PROGRAM).events.reached
    assert {path: {*own} & {"exp", "mul", "neg"} for path, own in names.forward.items() if path} == {
        "0": {"exp"},
        "1": {"mul"},
        "2": {"neg"},
    }
    assert "neg" in names.backward["2"]
    assert "neg" not in {*names.backward["0"], *names.backward["1"]}
    assert "mul" in names.backward["0"]
    rules = reached("torch_dtensor", PROGRAM).rules
    assert {"exp S0>S0", "mul S0>S0", "neg R>R"} <= {*rules}


@pytest.mark.slow
@pytest.mark.xla
def test_of_a_program_torch_xla_says_which_layer_dispatched_what() -> None:
    names = reached("xla_spmd", PROGRAM)
    assert {path: own for path, own in names.forward.items() if path} == {
        "0": ("exp",),
        "1": ("mul",),
        "2": ("neg",),
    }
    assert "neg" in names.backward[""]
    assert {"aten::exp", "aten::neg"} <= {*names.lowered}
