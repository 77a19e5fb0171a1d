"""Campaigns whose time ends, or that are stopped, before any of their runs: what was compared is recorded.

The same campaign then continues, and ends with the tables of an undisturbed one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from machines import (
    NUMBERED_CASES,
    Machine,
    a_campaign,
    machine_with_two_faults,
    run_to_the_end,
    sharded,
    sharded_with_odd_seed,
    timeless_tables,
)
from samples import tensor_parallel_case

from difftest.campaign import budget
from difftest.campaign.budget import until
from difftest.campaign.postponed import gather_postponed, postponed
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.ground.errors import NoTimeError, StoppedError
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.resume import resumed


class Ending(Machine):
    """A machine with two faults, which fails with `error` from the run with the number `left` on."""

    def __init__(self, left: int, error: Callable[[], Exception]) -> None:
        super().__init__(spmd=sharded, ddp=sharded_with_odd_seed)
        self.left, self._error = left, error

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome of the run; raises the error where none is left."""
        self.left -= 1
        if self.left < 0:
            raise self._error()
        return super().execute(case, backend, options)


def no_time() -> Exception:
    return NoTimeError("the time is over")


def stop() -> Exception:
    return StoppedError("interrupted", status=130)


def attempt(root: Path, machine: Machine) -> tuple[list[Progress], StoppedError | None]:
    """The campaign as a command runs it, postponed evidence first: its progress, and what stopped it."""
    campaign = a_campaign(root, machine)
    progress = list[Progress]()
    with resumed(campaign.corpus, "one") as recorded:
        try:
            gather_postponed(campaign)
            progress += run(campaign, NUMBERED_CASES, recorded)
        except StoppedError as stopped:
            return progress, stopped
    return progress, None


@pytest.mark.long
@pytest.mark.parametrize("error", [no_time, stop])
def test_a_campaign_that_ends_before_any_of_its_runs_continues_to_the_same_tables(
    tmp_path: Path, error: Callable[[], Exception]
) -> None:
    whole = tmp_path / "whole"
    run_to_the_end(whole)
    for left in range(1000):
        root = tmp_path / str(left)
        machine = Ending(left, error)
        _, stopped = attempt(root, machine)
        if machine.left >= 0:
            break
        assert (stopped is None) == (error is no_time)
        attempt(root, machine_with_two_faults())
        assert timeless_tables(root) == timeless_tables(whole), f"ended before run {left}"
    assert left > 20


def test_what_was_compared_of_a_case_is_recorded_and_its_case_is_not(tmp_path: Path) -> None:
    (one, *_), _ = attempt(tmp_path, Ending(2, stop))  # the oracle's run, and that of the first backend
    assert one.result.postponed
    lines = list(Corpus(tmp_path).observations())
    assert [line.backend for line in lines] == ["oracle", "ddp"]
    assert {line.runs for line in lines} == {3}
    with resumed(Corpus(tmp_path), "one") as recorded:
        assert recorded.cases == set()
    assert list(Corpus(tmp_path).observations()) == []


def test_a_case_of_which_nothing_was_compared_leaves_no_line(tmp_path: Path) -> None:
    attempt(tmp_path, Ending(1, no_time))
    assert list(Corpus(tmp_path).observations()) == []


def test_a_finding_without_evidence_says_so_until_it_is_gathered(tmp_path: Path) -> None:
    attempt(tmp_path, Ending(4, no_time))  # the runs of the first case, one of them with a better oracle
    corpus = Corpus(tmp_path)
    (finding,) = corpus.findings()
    assert finding.evidence["postponed"] == budget.OVER
    assert finding.blame == "inconclusive: it could not be run again"
    assert postponed(corpus, ("spmd",)) == (finding.fingerprint,)
    assert postponed(corpus, ("ddp",)) == ()
    campaign = a_campaign(tmp_path, machine_with_two_faults())
    gather_postponed(until(campaign, 0.0))
    assert postponed(corpus, ("spmd",)) == (finding.fingerprint,), "there was no time again"
    gather_postponed(campaign)
    (now,) = corpus.findings()
    assert (now.stable, postponed(corpus, ("spmd",))) == ((2, 2), ())


def test_a_finding_that_does_not_come_back_loses_its_postponed_evidence(tmp_path: Path) -> None:
    attempt(tmp_path, Ending(4, no_time))
    gather_postponed(a_campaign(tmp_path, Machine()))
    (finding,) = Corpus(tmp_path).findings()
    assert (finding.blame, finding.stable) == ("inconclusive: it did not come back", (0, 1))


def test_no_run_begins_after_the_end_alone_or_in_a_group(tmp_path: Path) -> None:
    machine = Machine()
    campaign = replace(a_campaign(tmp_path, machine), execute_group=lambda *_: [])
    assert until(campaign, float("inf")) is campaign
    over, case = until(campaign, 0.0), tensor_parallel_case()
    assert over.execute_group
    with pytest.raises(NoTimeError):
        over.execute(case, "oracle", {})
    with pytest.raises(NoTimeError):
        over.execute_group([(case, "oracle")], {})
    assert not machine.requests
