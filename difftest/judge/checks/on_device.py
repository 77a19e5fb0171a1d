"""The work was done on the run's device: every tensor, every operator, and no graph beside the program's own.

Numbers that the host computed agree too, and prove nothing about the device. A run reports where it worked
(`difftest.judge.events.Events`); a run that does not say what its device is, as in older bundles, is not
judged.
"""

import dataclasses
from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.events import Events, increases
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom, Trace
from difftest.judge.spoiled import Damage, last, tensor_at, with_tensor
from difftest.judge.stage import Stage


def _moved(case: Case, right: Trace) -> Trace | None:
    key = last(right, Stage.UPDATE)
    if not key or case.model.is_program or not right.events.device:
        return None
    return with_tensor(right, key, dataclasses.replace(tensor_at(right, key), devices=("canary",)))


ORDER = 5
"""Last: wrong numbers are reported as such, wherever they were computed."""

TRAITS = Traits(lacks_capability=True, damage=Damage(words="a tensor on another device", spoil=_moved))

READING = ("aten::_local_scalar_dense", "aten::nonzero")
"""torch_xla's counters of values that were read for a number, and for the size of a result."""

OFFLOADED = (Stage.BACKWARD, Stage.UPDATE)
"""The stages whose tensors `fully_shard` keeps on the host where a case offloads parameters."""

MOVES = ("Copy", "TBackward", "View", "AccumulateGrad")
"""In the names of autograd's nodes that compute nothing: the operators beside them come first."""


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each way in which work was done elsewhere; none for a run that failed."""
    events = run.events
    if not events.device:
        return
    yield from _tensors(run, events.device)
    yield from _operators(run, events)
    on_host = list(_host_operators(run, events))
    yield from on_host
    reads = run.case.model.own and run.case.model.own.reads
    if not on_host and not reads:  # which need values on the host, and so graphs and transfers of their own
        yield from _graphs(run, events)
        yield from _transfers(run, events)


def _tensors(run: MeasuredRun, device: str) -> Iterator[Divergence]:
    """The first tensor that a rank held elsewhere; parameters and gradients may be offloaded to the host."""
    offloaded = OFFLOADED if run.case.sharded_by.offload else ()
    for (step, stage, name), tensor in run.tensors():
        places = {device, "cpu"} if stage in offloaded else {device}
        if elsewhere := sorted({*tensor.devices} - places):
            place = elsewhere[0]
            detail = f"step {step}, {stage}, {name}: is on {place}, expected {device}"
            yield _divergence(run, (step, stage), f"a tensor is on {place} and not on {device}", detail)
            return


def _operators(run: MeasuredRun, events: Events) -> Iterator[Divergence]:
    """The operator that gave most results elsewhere."""
    if not events.elsewhere:
        return

    def rank(item: tuple[str, int]) -> tuple[bool, int, str]:
        name, times = item
        return any(word in name for word in MOVES), -times, name

    ranked = sorted(events.elsewhere.items(), key=rank)
    name, times = ranked[0]
    detail = f"forward: {name}, {times} times, expected {events.device}; all: {dict(ranked)}"
    yield _divergence(run, (_last(run), Stage.UPDATE), "an operator's result is on another device", detail)


def _host_operators(run: MeasuredRun, events: Events) -> Iterator[Divergence]:
    """Every operator that ran on the host without a reason, but those by which the user's code reads values.

    A number that a model reads breaks the graph of any compiler; it is a property of the model.
    """
    reads = run.case.model.own.reads if run.case.model.own else {}
    own = {*(f"aten::{name}" for name in reads), *(READING if reads else ())}
    for name, operator in events.host_operators.items():
        if not operator.reason and name not in own:
            times = f"{name} ran on the host {operator.times} times"
            detail = f"{times}: the framework has none for {events.device}"
            yield _divergence(run, (_last(run), Stage.UPDATE), f"{name} falls back to the host", detail)


def _graphs(run: MeasuredRun, events: Events) -> Iterator[Divergence]:
    """The first step that ran more graphs than the backend's own program has, or a run without any."""
    if events.requested and not (events.executed and events.executed[-1]):
        detail = f"no graph ran on {events.device} in {len(events.requested)} steps"
        yield _divergence(run, (_last(run), Stage.UPDATE), "no graph runs", detail)
    pairs = zip(increases(events.executed), increases(events.requested), strict=False)
    for step, (executed, requested) in enumerate(pairs):
        if executed > requested:
            cause = "a step runs more graphs than the program has"
            detail = (
                f"step {step}: {executed} graphs ran, the program has {requested}: values left the device"
            )
            yield _divergence(run, (step, Stage.UPDATE), cause, detail)
            return


def _transfers(run: MeasuredRun, events: Events) -> Iterator[Divergence]:
    """The first step in which the program itself sent tensors to the host."""
    for step, fetched in enumerate(increases(events.fetched)):
        if fetched > 0:
            detail = f"step {step}: the program sent {fetched} tensors to the host, expected none"
            yield _divergence(run, (step, Stage.UPDATE), "tensors leave the device within a step", detail)
            return


def _last(run: MeasuredRun) -> int:
    """The last step, where what is counted over the whole run is reported."""
    return run.case.training.steps - 1


def _divergence(run: MeasuredRun, at: tuple[int, Stage], cause: str, detail: str) -> Divergence:
    step, stage = at
    wrong = RemarkFacts(remark=detail, placed=False)
    return run.divergence(
        check="on_device", symptom=Symptom.MISMATCH, stage=stage, step=step, cause=cause, facts=wrong
    )
