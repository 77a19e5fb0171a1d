"""The check that the work was done on the run's device, on made-up runs."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from samples import a_case, a_failure, candidate, oracle, wrong_at

from difftest.cases.case import Training
from difftest.cases.wrapping import Sharding
from difftest.judge.checks import on_device
from difftest.judge.comparator import compare
from difftest.judge.divergence import Divergence
from difftest.judge.events import Events, HostOperator
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Outcome, Trace
from difftest.judge.stage import Stage
from difftest.records import traces

CASE = a_case(training=Training(steps=2))
HEALTHY: dict[str, Any] = {"device": "xla", "executed": (2, 4), "requested": (2, 4), "fetched": (0, 0)}
WEIGHT = (Stage.UPDATE, "0.weight")


def divergences(outcome: Outcome) -> list[Divergence]:
    return list(on_device.check(measure_run(CASE, "a_backend", "a_side", oracle(CASE), outcome)))


def reporting(**events: Any) -> list[Divergence]:  # noqa: ANN401  the fields of Events
    """The divergences of a correct run with these events, beside those of a healthy run."""
    return divergences(dataclasses.replace(held_on("xla"), events=Events(**{**HEALTHY, **events})))


def held_on(*devices: str) -> Trace:
    """A correct run whose tensors say that they were on these devices."""
    trace = candidate(CASE)
    steps = tuple(
        {key: dataclasses.replace(tensor, devices=devices) for key, tensor in step.items()}
        for step in trace.steps
    )
    return dataclasses.replace(trace, steps=steps)


def test_a_healthy_run_shows_nothing() -> None:
    assert reporting() == []
    assert reporting(executed=(), requested=(), fetched=()) == []


def test_a_run_that_failed_or_does_not_name_its_device_shows_nothing() -> None:
    assert divergences(a_failure()) == []
    assert divergences(held_on("cpu")) == []
    assert reporting(device="", executed=(9, 18), elsewhere={"MmBackward0 on cpu": 1}) == []


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "xla")], ids=["every rank", "one rank"])
def test_a_tensor_on_another_device_diverges_at_its_place(devices: tuple[str, ...]) -> None:
    healthy, moved = held_on("xla"), held_on(*devices)
    second = {**healthy.steps[1], WEIGHT: moved.steps[1][WEIGHT]}
    trace = dataclasses.replace(healthy, steps=(healthy.steps[0], second), events=Events(**HEALTHY))
    (divergence,) = divergences(trace)
    assert (divergence.step, divergence.stage) == (1, Stage.UPDATE)
    assert divergence.detail == "step 1, update, 0.weight: is on cpu, expected xla"


@pytest.mark.parametrize("offload", [True, False])
def test_parameters_and_gradients_are_on_the_host_where_a_case_offloads_them(offload: bool) -> None:
    case = a_case(training=Training(steps=2), sharding=Sharding(offload=offload))
    on_host, on_card = held_on("cpu"), held_on("cuda")
    steps = tuple(
        {key: (step if key[0] in {Stage.BACKWARD, Stage.UPDATE} else other)[key] for key in step}
        for step, other in zip(on_host.steps, on_card.steps, strict=True)
    )
    trace = dataclasses.replace(on_host, steps=steps, events=Events(**{**HEALTHY, "device": "cuda"}))
    found = list(on_device.check(measure_run(case, "torch_fsdp", "torch", oracle(case), trace)))
    assert [f.detail for f in found] == ([] if offload else [found[0].detail])
    everything = dataclasses.replace(on_host, events=trace.events)
    assert list(on_device.check(measure_run(case, "torch_fsdp", "torch", oracle(case), everything)))


def test_the_operator_that_ran_elsewhere_is_named_before_the_copies_around_it() -> None:
    (divergence,) = reporting(elsewhere={"ToCopyBackward0 on cpu": 9, "MmBackward0 on cpu": 2})
    assert divergence.detail.startswith("forward: MmBackward0 on cpu, 2 times, expected xla; all: ")


def test_an_operator_on_the_host_diverges_unless_there_is_a_reason_for_it() -> None:
    operators = {"aten::nonzero": HostOperator(3), "aten::eigh": HostOperator(1, "XLA has no such solver")}
    (divergence,) = reporting(host_operators=operators)
    assert divergence.detail == "aten::nonzero ran on the host 3 times: the framework has none for xla"


@pytest.mark.parametrize(
    ("events", "step", "detail"),
    [
        ({"executed": (2, 7)}, 1, "step 1: 5 graphs ran, the program has 2: values left the device"),
        ({"executed": (1, 5)}, 1, "step 1: 4 graphs ran, the program has 2: values left the device"),
        ({"executed": (0, 0)}, 1, "no graph ran on xla in 2 steps"),
        ({"executed": ()}, 1, "no graph ran on xla in 2 steps"),
        ({"fetched": (6, 12)}, 0, "step 0: the program sent 6 tensors to the host, expected none"),
    ],
)
def test_graphs_and_transfers_beside_the_program_diverge(
    events: dict[str, Any], step: int, detail: str
) -> None:
    (divergence,) = reporting(**events)
    assert (divergence.step, divergence.detail) == (step, detail)


def test_the_graphs_and_transfers_of_an_operator_on_the_host_are_no_divergence_beside_it() -> None:
    """Its operands and results cross over, which cuts a step into graphs."""
    operators = {"aten::nonzero": HostOperator(3)}
    (divergence,) = reporting(host_operators=operators, executed=(2, 7), fetched=(6, 12))
    assert "ran on the host" in divergence.detail


def test_fewer_graphs_than_requested_are_no_divergence() -> None:
    """A call of `torch_xla.sync` with nothing to run counts as requested."""
    assert reporting(executed=(2, 3)) == []


def test_the_fingerprint_holds_no_number_of_the_run() -> None:
    few, many = (reporting(executed=executed)[0] for executed in ((3, 5), (9, 99)))
    assert few.fingerprint == many.fingerprint


def test_wrong_numbers_are_reported_first() -> None:
    wrong = candidate(CASE, wrong_at(Stage.UPDATE, "0.weight"))
    events = Events(**{**HEALTHY, "fetched": (1, 1)})
    comparison = compare(CASE, "a_backend", "a_side", oracle(CASE), dataclasses.replace(wrong, events=events))
    assert comparison.divergences[0].check == "parameters"
    assert "on_device" in {d.check for d in comparison.divergences}


def test_right_numbers_from_the_host_diverge() -> None:
    trace = dataclasses.replace(held_on("cpu"), events=Events(**HEALTHY))
    comparison = compare(CASE, "a_backend", "a_side", oracle(CASE), trace)
    assert comparison.verdict == "diverge"
    assert [d.check for d in comparison.divergences] == ["on_device"]


def test_devices_are_kept_in_files_and_joined_over_ranks(tmp_path: Path) -> None:
    first, second = (trace.steps[0][WEIGHT] for trace in (held_on("xla"), held_on("cpu")))
    assert first.merged(second).devices == ("cpu", "xla")
    traces.save(tmp_path / "run", held_on("xla"))
    read = traces.load(tmp_path / "run")
    assert isinstance(read, Trace)
    assert read.steps[1][WEIGHT].devices == ("xla",)
