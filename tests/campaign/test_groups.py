"""Groups of cases in a campaign: what is recorded is that of cases that run alone, in their order."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from machines import (
    Machine,
    Wrong,
    a_campaign,
    backend,
    examined,
    sharded,
    sharded_with_odd_seed,
    timeless_tables,
)
from sample_programs import a_program
from samples import a_failure, tensor_parallel_case

from difftest.campaign import groups
from difftest.campaign.campaign import LETHAL_TIMES, ORACLE, TRIES, Campaign
from difftest.campaign.groups import MOST_CASES, grouped
from difftest.campaign.new_finding import REPEATS
from difftest.cases.case import Case, Data, Training
from difftest.cases.options import Start
from difftest.ground.errors import NODE_LOST, InfrastructureError, LethalError, StoppedError, UnsupportedError
from difftest.judge.outcome import Outcome

CASES = tuple(tensor_parallel_case(seed=seed) for seed in range(6))
DEVICE_FIRST = Start(acts=("device", "spmd", "mesh", "seed"))


class Groups(Machine):
    """A machine that runs groups too. `groups` has the backend and the number of cases of each request.

    `errors` are those of a case, by its backend and its number in the group; `spoils` are those of groups.
    """

    def __init__(self, **wrong: Wrong) -> None:
        super().__init__(**wrong)
        self.groups = list[tuple[str, int]]()
        self.errors, self.spoils = dict[tuple[str, int], InfrastructureError](), dict[str, Exception]()

    def execute_group(
        self, runs: Sequence[tuple[Case, str]], _options: Mapping[str, str]
    ) -> Sequence[Outcome | InfrastructureError]:
        """The outcome that each run has alone, or its error."""
        backend = runs[0][1]
        self.groups.append((backend, len(runs)))
        if backend in self.spoils:
            raise self.spoils[backend]
        answers = [self.answer(case, name) for case, name in runs]
        return [self.errors.get((backend, number), answer) for number, answer in enumerate(answers)]


@pytest.fixture(autouse=True)
def every_case_can_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "can_share", lambda _one, _other: True)


def in_groups(root: Path, machine: Groups, **fields: object) -> Campaign:
    return dataclasses.replace(a_campaign(root, machine), execute_group=machine.execute_group, **fields)  # type: ignore[arg-type]


def test_programs_are_grouped_and_every_other_case_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    program, case, other = (
        a_program(),
        tensor_parallel_case(),
        tensor_parallel_case(training=Training(steps=3)),
    )
    programs = [msgspec.structs.replace(program, seed=seed) for seed in range(MOST_CASES + 3)]
    odd = msgspec.structs.replace(program, start=DEVICE_FIRST)
    stream = [case, *programs[:2], case, other, *programs, odd, programs[0]]
    shapes = [[index for index, _ in group] for group in grouped(enumerate(stream))]
    assert [len(group) for group in shapes] == [1, 2, 1, 1, MOST_CASES, 3, 1, 1]
    assert [index for group in shapes for index in group] == list(range(len(stream)))


def test_the_inputs_of_one_case_are_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    case = tensor_parallel_case(fed=Data(batch=4))
    ties = tensor_parallel_case(fed=Data(batch=4, regime="ties"), seed=1)
    more_rows = tensor_parallel_case(fed=Data(batch=8), seed=2)
    odd = [msgspec.structs.replace(one, start=DEVICE_FIRST) for one in (case, ties)]
    seed_early = Start(acts=("spmd", "seed", "device", "mesh"))
    late = [msgspec.structs.replace(one, start=seed_early) for one in (case, ties)]
    stream = [case, ties, more_rows, *odd, *late, case]
    assert [len(group) for group in grouped(enumerate(stream))] == [2, 1, 1, 1, 2, 1]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_campaign_in_groups_records_what_one_of_single_cases_does(tmp_path: Path, workers: int) -> None:
    machine = Groups(spmd=sharded, ddp=sharded_with_odd_seed)
    together = examined(in_groups(tmp_path / "together", machine, workers=workers, twice_every=4), *CASES)
    alone = examined(
        dataclasses.replace(
            a_campaign(tmp_path / "alone", Machine(spmd=sharded, ddp=sharded_with_odd_seed)), twice_every=4
        ),
        *CASES,
    )
    assert [one.result.index for one in together] == list(range(len(CASES)))
    assert [(one.new != (), len(one.recurring)) for one in together] == [
        (one.new != (), len(one.recurring)) for one in alone
    ]
    assert timeless_tables(tmp_path / "together") == timeless_tables(tmp_path / "alone")
    assert machine.groups[:5] == [(ORACLE, 6), ("ddp", 6), ("ddp", 2), ("spmd", 6), ("spmd", 2)]


def test_the_evidence_for_a_finding_comes_from_cases_that_run_alone(tmp_path: Path) -> None:
    machine = Groups(spmd=sharded)
    assert any(one.new for one in examined(in_groups(tmp_path, machine), *CASES))
    assert machine.groups == [(ORACLE, 6), ("ddp", 6), ("spmd", 6)]
    assert machine.requests[CASES[0].id, "spmd"] > 0


def test_a_divergence_that_needs_the_cases_before_it_is_shown_as_unstable(tmp_path: Path) -> None:
    machine = Groups(spmd=sharded)
    machine.execute = Machine().execute  # type: ignore[method-assign]
    (first, *_) = examined(in_groups(tmp_path, machine), *CASES)
    assert [finding.stable for finding in first.new] == [(0, 2)]


def test_a_case_that_the_machine_spoiled_runs_again_alone(tmp_path: Path) -> None:
    machine = Groups()
    machine.errors["spmd", 2] = InfrastructureError("a rank was killed from outside")
    results = [one.result for one in examined(in_groups(tmp_path, machine), *CASES)]
    assert {result.trouble for result in results} == {""}
    assert {result.comparisons["spmd"].verdict for result in results} == {"agree"}
    assert machine.requests == {(CASES[2].id, "spmd"): 1}


def test_a_group_that_is_lost_as_a_whole_is_tried_case_by_case(tmp_path: Path) -> None:
    machine = Groups()
    machine.spoils["ddp"] = InfrastructureError("a node was lost")
    machine.spoiled = {"ddp": TRIES}
    lost, *others = [one.result for one in examined(in_groups(tmp_path, machine), *CASES)]
    assert (lost.trouble, set(lost.missing), lost.comparisons["spmd"].verdict) == (
        "a node was lost",
        {"ddp"},
        "agree",
    )
    assert {one.comparisons["ddp"].verdict for one in others} == {"agree"}


def test_a_lethal_case_of_a_group_is_set_aside_alone(tmp_path: Path) -> None:
    lethal = LethalError("the node died while the case ran on it", kind=NODE_LOST)

    class Lethal(Groups):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            outcome = super().execute(case, backend, options)
            if (case.id, backend) == (CASES[1].id, "spmd"):
                raise lethal
            return outcome

    machine = Lethal()
    machine.spoils["spmd"] = lethal
    progress = examined(in_groups(tmp_path, machine), *CASES)
    assert [len(one.new) for one in progress] == [0, 1, 0, 0, 0, 0]
    assert machine.requests[CASES[1].id, "spmd"] == LETHAL_TIMES


def test_what_is_set_aside_does_not_run_in_a_group(tmp_path: Path) -> None:
    machine = Groups()
    campaign = in_groups(tmp_path, machine)
    (run, *_) = groups.run_each(campaign, [(case, "spmd") for case in CASES])
    assert not isinstance(run, InfrastructureError)
    campaign.set_aside[CASES[3].id, "spmd", ()] = run
    machine.groups.clear()
    assert groups.run_each(campaign, [(case, "spmd") for case in CASES])[3] is run
    assert machine.groups == [("spmd", 5)]


def test_a_case_that_a_workers_packages_refuse_is_counted_so(tmp_path: Path) -> None:
    class Refusing(Groups):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            super().execute(case, backend, options)
            raise refused

    machine, refused = Refusing(), UnsupportedError("too old")
    machine.errors["spmd", 0] = refused
    first, *others = [one.result for one in examined(in_groups(tmp_path, machine), *CASES)]
    assert (first.missing["spmd"].status, first.trouble) == ("refused", "")
    assert not any(one.missing for one in others)


def test_a_case_that_its_process_refuses_within_a_group_is_counted_so(tmp_path: Path) -> None:
    class Refusing(Groups):
        def answer(self, case: Case, backend: str) -> Outcome:
            answer = super().answer(case, backend)
            refuses = (case, backend) == (CASES[1], "spmd")
            return a_failure(kind=UnsupportedError.__name__, message="no values") if refuses else answer

    _, second, *others = [one.result for one in examined(in_groups(tmp_path, Refusing()), *CASES)]
    assert (second.missing["spmd"].status, second.trouble) == ("refused", "")
    assert not any(one.missing for one in others)


def test_a_stop_ends_the_campaign_within_a_group(tmp_path: Path) -> None:
    machine = Groups()
    machine.spoils["spmd"] = StoppedError("interrupted", status=130)
    with pytest.raises(StoppedError, match="interrupted"):
        examined(in_groups(tmp_path, machine), *CASES)
    assert not machine.requests, "nothing is tried again"


def behind_it(root: Path, machine: Groups) -> Campaign:
    """A campaign with a second backend of the XLA side, which follows the first in its processes."""
    three = {"ddp": backend("torch"), "spmd": backend("xla"), "second": backend("xla")}
    return dataclasses.replace(
        a_campaign(root, machine, three), execute_group=machine.execute_group, follows={"second": "spmd"}
    )


def test_a_backend_that_follows_another_shares_its_processes(tmp_path: Path) -> None:
    machine = Groups(second=sharded)
    (progress,) = examined(behind_it(tmp_path, machine), CASES[0])
    assert machine.groups == [("spmd", 2)], "the case on both; the others run it alone"
    verdicts = {name: one.verdict for name, one in progress.result.comparisons.items()}
    assert verdicts == {"ddp": "agree", "spmd": "agree", "second": "diverge"}
    assert machine.requests[CASES[0].id, "second"] == REPEATS, "the evidence comes from runs of its own"


def test_a_case_whose_program_may_share_no_process_runs_on_each_backend_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    machine = Groups()
    examined(behind_it(tmp_path, machine), msgspec.structs.replace(CASES[0], start=DEVICE_FIRST))
    assert not machine.groups


def test_a_backend_whose_leader_cannot_express_the_case_runs_alone(tmp_path: Path) -> None:
    machine = Groups()
    campaign = behind_it(tmp_path, machine)
    refusing = dataclasses.replace(
        campaign, backends={**campaign.backends, "spmd": backend("xla", "it cannot")}
    )
    (progress,) = examined(refusing, CASES[0])
    assert not machine.groups
    assert {name for name, one in progress.result.comparisons.items() if one.verdict == "agree"} == {
        "ddp",
        "second",
    }
