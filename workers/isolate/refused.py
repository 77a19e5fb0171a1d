"""Which failures leave the processes of a run as they were: what a framework refuses before it computes."""

import time
from collections.abc import Sequence
from pathlib import Path

from difftest.cases.case import Case
from difftest.judge.outcome import Failure, Outcome, Symptom
from workers import backends
from workers.isolate import run_folder

ALL_REFUSE_SECONDS = 1.0
"""How long a rank waits for the others to refuse what it refused."""

POLL_SECONDS = 0.002


def is_refusal(outcome: Outcome, case: Case) -> bool:
    """Whether `outcome` is a failure of `case` whatever ran before it in its processes.

    What a framework refuses, as all do whose arguments are wrong, it refuses before it computes anything. Any
    other failure may come from what ran before.
    """
    if not isinstance(outcome, Failure):
        return False
    refused = outcome.symptom is Symptom.EXCEPTION and case.model.rejects
    return outcome.symptom is Symptom.CAPABILITY or refused


def next_may_follow(outcome: Outcome, case: Case, folder: Path) -> bool:
    """Whether the same processes may run another case after a failure of `case` on this rank.

    They may where every rank refused it: one that fails alone leaves the others in a collective. On PJRT a
    refusal may come from the middle of a graph, which it leaves behind.
    """
    if not is_refusal(outcome, case) or outcome.origin is None:
        return False
    backend = backends.load(outcome.origin.backend)
    return not backend.PROFILE.on_pjrt and _wait(folder, range(backend.processes(case)))


def by_all(folder: Path, ranks: Sequence[int], case: Case) -> bool:
    """Whether every rank has left a refusal of `case` in its folder."""
    left = [run_folder.read(folder, rank) for rank in ranks if run_folder.left_failure(folder, rank)]
    return len(left) == len(ranks) and all(
        failure is not None and is_refusal(failure, case) for failure in left
    )


def _wait(folder: Path, ranks: Sequence[int]) -> bool:
    end = time.monotonic() + ALL_REFUSE_SECONDS
    while not all(run_folder.left_failure(folder, rank) for rank in ranks):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True
