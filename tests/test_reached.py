"""What a run reached: the operators that each framework's own dispatcher was given in a real run."""

from pathlib import Path

import pytest
from real_runs import oracle_trace
from samples import DEEP, a_case

from difftest.cases.layout import Replicate, Shard
from difftest.judge.events import Events
from difftest.judge.outcome import Trace
from difftest.judge.reached import Reached
from difftest.records import traces
from workers.isolate import sandbox

CASE = a_case(
    DEEP, mesh=(("tp", 2),), batch=(Replicate(),), sharded={"0.weight": (Shard(0),), "0.bias": (Shard(0),)}
)


def reached(backend: str) -> Reached:
    outcome = sandbox.run(CASE, backend, deadline=120.0)
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
