"""The failure of a run, from what its ranks left in the run's folder and how they ended."""

import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from difftest.judge.divergence import without_numbers
from difftest.judge.outcome import Failure, Symptom
from workers.isolate import native_frames, run_folder
from workers.isolate.limits import Excess
from workers.isolate.lost_peers import lost_a_peer
from workers.isolate.ranks import Ranks

LOG_CHARACTERS = 8000
"""How much of a rank's log a failure keeps."""

HEADING = "Fatal Python error:"
"""What faulthandler writes ahead of the name of a fatal signal."""


def failure_of(ranks: Ranks, case: int) -> Failure | None:
    """The failure that stands for a case, by its index, of a run; without versions; None if none is known."""
    folder = ranks.folders[case]
    if ranks.excess is not None:
        return _beyond_limit(folder, ranks.excess)
    here = {rank: status for rank, status in ranks.statuses.items() if ranks.case_of(rank) == case}
    if failed := [rank for rank, status in here.items() if run_folder.failed(folder, rank, status)]:
        return representative(folder, first_failed(folder, {rank: here[rank] for rank in failed}), here)
    return _hang(case, ranks, ranks.hang) if ranks.hang else None


def refusal_of(folder: Path, ranks: Iterable[int]) -> Failure:
    """The failure that stands for a case which every one of `ranks` has refused."""
    ended_well = dict.fromkeys(ranks, 0)
    return representative(folder, first_failed(folder, ended_well), ended_well)


def first_failed(folder: Path, failed: Mapping[int, int]) -> int:
    """The rank that failed first by itself, of those that failed, which have their exit statuses.

    A rank that lost its peer failed because of it, whatever the times say: a process may be gone before what
    it left has its time. Where all have lost one, it is the first of them.
    """
    return min(
        failed,
        key=lambda rank: (
            lost_a_peer(_failure(folder, rank, failed[rank])),
            run_folder.failed_at(folder, rank),
        ),
    )


def representative(folder: Path, first: int, statuses: Mapping[int, int]) -> Failure:
    """The failure of the lowest rank that failed in the same way as rank `first`.

    `first` is the rank that failed first. The lowest rank, so that the failure does not depend on which rank
    was faster; in the same way, so that it is not a consequence of the first failure.
    """
    failure = _failure(folder, first, statuses[first])
    for rank in sorted(
        rank for rank, status in statuses.items() if rank < first and run_folder.failed(folder, rank, status)
    ):
        other = _failure(folder, rank, statuses[rank])
        if _kind(other) == _kind(failure):
            return other
    return failure


def _kind(failure: Failure) -> tuple[object, ...]:
    """What is equal for ranks that fail in the same way.

    The message is part of it: a rank that lost its peer may raise where the peer did.
    """
    return failure.kind, failure.frame, failure.stage, failure.step, without_numbers(failure.message)


def _beyond_limit(folder: Path, excess: Excess) -> Failure:
    stage, step = run_folder.stage(folder, excess.rank)
    return Failure(
        symptom=Symptom.CRASH,
        stage=stage,
        step=step,
        kind=excess.kind,
        message=excess.message,
        log=run_folder.log(folder, excess.rank)[-LOG_CHARACTERS:],
        operator=run_folder.operator(folder, excess.rank),
        rank=excess.rank,
    )


def _failure(folder: Path, rank: int, status: int) -> Failure:
    """The failure that a rank left, or else its death, a crash."""
    outcome = run_folder.read(folder, rank)
    if isinstance(outcome, Failure):
        return outcome
    stage, step = run_folder.stage(folder, rank)
    log = run_folder.log(folder, rank)
    return Failure(
        symptom=Symptom.CRASH,
        stage=stage,
        step=step,
        kind=signal.Signals(-status).name if status < 0 else f"exit status {status}",
        message=_fatal_line(log, status),
        frame=native_frames.crashed_in(log),
        log=native_frames.readable(log, LOG_CHARACTERS),
        operator=run_folder.operator(folder, rank),
        rank=rank,
    )


def _hang(case: int, ranks: Ranks, reason: str) -> Failure:
    """The hang of the lowest rank that did not end, with its Python frame.

    It stands for the run, since which rank waits for which cannot be observed from outside.
    """
    folder = ranks.folders[case]
    rank = min(rank for rank in {*ranks.expected} - {*ranks.statuses} if ranks.case_of(rank) == case)
    stage, step = run_folder.stage(folder, rank)
    log = run_folder.log(folder, rank)
    return Failure(
        symptom=Symptom.HANG,
        stage=stage,
        step=step,
        kind="deadline",
        message=f"{reason}; ranks that ended: {sorted(ranks.statuses)}",
        frame=native_frames.python_frame(log),
        log=log[-LOG_CHARACTERS:],
        operator=run_folder.operator(folder, rank),
        rank=rank,
    )


def _fatal_line(log: str, status: int) -> str:
    """The line of a log that says why the process died.

    The first line with a failed CHECK, an abort message or faulthandler's heading; else the log's first line.
    Another thread's output may cut the heading off ahead of the signal, which the `status` has too.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    fatal = [
        line
        for line in lines
        if "Check failed" in line or line.startswith(("F0", "F1", HEADING, "terminate called"))
    ]
    line = (fatal or lines or [""])[0]
    return f"{HEADING} {signal.strsignal(-status)}" if line == HEADING and status < 0 else line
