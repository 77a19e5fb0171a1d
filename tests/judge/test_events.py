"""Events: the reports of a run besides tensors, merged over ranks so that a fault on any is detected."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import a_case, candidate, of_rank, oracle

from difftest.judge.comparator import Comparison, compare
from difftest.judge.events import Client, Events, Fact, HostOperator, Misplaced
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage
from difftest.records import traces

CASE = a_case()


def own(process: int) -> Client:
    """The one client of a process, torch_xla's."""
    return client("torch_xla", process, stage=Stage.BUILD)


def client(library: str, process: int, **changes: Any) -> Client:  # noqa: ANN401
    usual = {"platform": "cpu", "stage": Stage.BACKWARD, "step": 0, "guarded": True, "caller": ""}
    return Client(**{**usual, **changes}, library=library, process=process)


def compared(*ranks: Events) -> Comparison:
    """The verdict on a correct run whose ranks report these events."""
    whole = candidate(CASE)
    parts = [dataclasses.replace(of_rank(whole, rank), events=events) for rank, events in enumerate(ranks)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    return compare(CASE, "some_backend", "some_side", oracle(CASE), merged)


def test_every_rank_of_a_correct_run_has_a_client_and_compiles_its_first_steps() -> None:
    comparison = compared(
        Events(graphs=(9, 12, 12, 12, 12), clients=(own(0),)),
        Events(graphs=(2, 3, 4, 4, 4), clients=(own(1), client("jax", 1))),
    )
    assert comparison.verdict == "agree"


@pytest.mark.parametrize("faulty", [0, 1])
@pytest.mark.parametrize(
    ("planted", "check"),
    [
        (lambda rank: Events(clients=(own(rank), client("jax", rank, guarded=False))), "runtime_init"),
        (lambda rank: Events(clients=(own(rank), *2 * (client("jax", rank),))), "runtime_init"),
        (lambda _: Events(graphs=(1, 2, 3, 4)), "recompile"),
        (lambda _: Events(misplaced={"0.weight": Misplaced((1, 1), (2, 1))}), "annotation"),
    ],
    ids=["unguarded client", "second client", "recompiled", "misplaced"],
)
def test_a_fault_is_detected_on_any_rank(
    faulty: int,
    planted: Callable[[int], Events],
    check: str,
) -> None:
    ranks = [Events(graphs=(20, 20, 20, 20), clients=(own(rank),)) for rank in (0, 1)]
    ranks[faulty] = planted(faulty)
    comparison = compared(*ranks)
    assert {divergence.check for divergence in comparison.divergences} == {check}


def test_threads_that_read_a_shared_counter_early_count_no_later_compilations() -> None:
    early, late = Events(graphs=(3, 5, 6, 8)), Events(graphs=(3, 5, 8, 8))
    assert early.merged_with_thread(late).graphs == (3, 5, 8, 8)
    assert early.merged(late).graphs == (3, 5, 8, 10)


def test_clients_that_several_threads_report_are_kept_once() -> None:
    both = (own(0), client("jax", 0))
    merged = Events(clients=both).merged_with_thread(Events(clients=both[:1]))
    assert merged.clients == both
    assert Events(clients=(own(0),)).merged(Events(clients=(own(1),))).clients == (own(0), own(1))


def test_merged_events_keep_the_other_fields_of_both() -> None:
    one = Events(
        in_range=False,
        greatest=1.0,
        native=5.0,
        jax_backends=("cpu",),
        device="xla",
        elsewhere={"MmBackward0 on cpu": 2},
        host_operators={"aten::a": HostOperator(1), "aten::c": HostOperator(3, "a reason")},
        executed=(2, 4),
    )
    other = Events(
        greatest=2.0,
        native=3.0,
        misplaced={"w": Misplaced((1,), (2,))},
        graphs=(1,),
        device="xla",
        elsewhere={"MmBackward0 on cpu": 1, "AddBackward0 on cpu": 1},
        host_operators={"aten::b": HostOperator(1), "aten::c": HostOperator(2, "a reason")},
        requested=(2, 4),
        fetched=(0, 1),
    )
    expected = Events(
        in_range=False,
        greatest=2.0,
        native=5.0,
        graphs=(1,),
        misplaced={"w": Misplaced((1,), (2,))},
        jax_backends=("cpu",),
        device="xla",
        elsewhere={"AddBackward0 on cpu": 1, "MmBackward0 on cpu": 2},
        host_operators={
            "aten::a": HostOperator(1),
            "aten::b": HostOperator(1),
            "aten::c": HostOperator(3, "a reason"),
        },
        executed=(2, 4),
        requested=(2, 4),
        fetched=(0, 1),
    )
    assert one.merged(other) == other.merged(one) == expected


def test_events_are_read_back_from_files_and_from_older_ones(tmp_path: Path) -> None:
    events = Events(
        graphs=(1, 2),
        clients=(own(1),),
        misplaced={"0.weight": Misplaced((1, 1), (2, 1))},
        device="xla",
        host_operators={"aten::nonzero": HostOperator(1, "a reason")},
        fetched=(0, 2),
        facts={"0.output": Fact("int64", requires_grad=False)},
    )
    traces.save(tmp_path / "run", dataclasses.replace(candidate(CASE), events=events))
    assert loaded(tmp_path).events == events
    file = tmp_path / "run.json"
    content = json.loads(file.read_text())
    older = {"library": "jax", "platform": "cpu", "stage": "build", "step": 0, "guarded": False, "caller": ""}
    content["events"] = {
        "clients": [older],
        "misplaced": {"w": [[1], [2]]},
        "gone": {"since": "then"},
        "fallbacks": ["aten::nonzero"],  # names without counts, as older files have them
    }
    file.write_text(json.dumps(content))
    read = loaded(tmp_path).events
    assert read.clients[0].process == 0
    assert read.misplaced == {"w": Misplaced((1,), (2,))}


def loaded(folder: Path) -> Trace:
    outcome = traces.load(folder / "run")
    assert isinstance(outcome, Trace)
    return outcome


def test_facts_in_which_one_rank_differs_from_another_are_marked() -> None:
    alike, other = Fact("float32", requires_grad=True), Fact("float32", requires_grad=False)
    first, second = Events(facts={"0.output": alike, "1.output": alike}), Events(facts={"0.output": other})
    expected = {"0.output": Fact("float32", requires_grad=True, alike=False), "1.output": alike}
    assert first.merged(second).facts == expected
    assert first.merged(first).merged(first).facts == first.facts
