"""One run, isolated: every rank a process of its own, forked from a warm zygote, within limits of time, memory and output.

Whatever the ranks do - finish, raise, abort, crash, hang, grow beyond a limit - comes out as an `Outcome`; what is wrong with the machine
itself (the zygote gone, a full disk, a rank killed from outside) as `InfrastructureError`. A child's process group dies with its run.
"""

import contextlib
import dataclasses
import itertools
import os
import queue
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from difftest import plugins
from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.judge.outcome import Failure, Outcome, Stage, Symptom, Trace
from workers.isolate import limits, native, spool
from workers.isolate.limits import Excess, Limits
from workers.isolate.zygotes import Zygote, zygote_with

DEADLINE_SECONDS = limits.DEADLINE_SECONDS
WHERE_SECONDS = 0.5
"""How long ranks that hang have to say where."""

GRACE_SECONDS = 3.0
"""How long the other ranks may go on once one has failed: enough to fail by themselves, not to wait out a collective."""

LOG_CHARACTERS = 8000
LOG_BYTES = 2**20
"""Of a rank's standard error that are read, its end."""

FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""No framework ends itself by these: the kernel for want of memory, a scheduler or a person did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One node's `ranks` of a run that several nodes make together; all of it meet at `rendezvous`, a `tcp://` URL."""

    ranks: range
    rendezvous: str

    def variables(self, rank: int) -> dict[str, str]:
        """What tells a rank its place on its node, by torchrun's names."""
        return {"LOCAL_RANK": str(rank - self.ranks.start), "LOCAL_WORLD_SIZE": str(len(self.ranks))}


@dataclass(slots=True)
class _Ranks:
    """What is known of a run's processes; `wanted` are those that this machine has."""

    wanted: range
    pids: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    first_failed: int | None = None
    excess: Excess | None = None

    @property
    def done(self) -> bool:
        return len(self.statuses) == len(self.wanted)

    def hear(self, reply: Mapping[str, Any], folder: Path) -> None:
        if "gone" in reply:
            msg = "the process that forks workers died during a run"
            raise InfrastructureError(msg)
        if "status" not in reply:
            self.pids[reply["pid"]] = reply["rank"]
            return
        rank = self.pids[reply["pid"]]
        self.statuses[rank] = reply["status"]
        if self.first_failed is None and _failed(folder, rank, reply["status"]):
            self.first_failed = rank

    def running(self) -> dict[int, int]:
        return {pid: rank for pid, rank in self.pids.items() if rank not in self.statuses}

    def require_untouched(self, folder: Path) -> None:
        """`InfrastructureError` when a rank was ended by something else than its own framework."""
        for rank, status in self.statuses.items():
            if -status in FROM_OUTSIDE:
                msg = f"rank {rank} was killed from outside by {signal.Signals(-status).name}; was the machine out of memory?"
                raise InfrastructureError(msg)
            if status == spool.MACHINE_STATUS:
                msg = f"the machine failed rank {rank}: {(_log(folder, rank).strip().splitlines() or ['no reason given'])[-1]}"
                raise InfrastructureError(msg)

    def ask_where(self) -> None:
        """Makes ranks that hang leave their Python frames in their logs."""
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, spool.WHERE_SIGNAL)
        time.sleep(WHERE_SECONDS)

    def kill(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


_numbers = itertools.count()


def run(  # noqa: PLR0913  everything but case and backend has a default
    case: Case,
    backend: str,
    *,
    deadline: float = DEADLINE_SECONDS,
    options: Mapping[str, str] | None = None,
    allowed: Limits | None = None,
    share: Share | None = None,
) -> Outcome:
    """Runs `case` on `backend` in fresh processes and says what came of it.

    `options` are further environment variables of the children (a variant, an ablation, a planted fault). `deadline` is in seconds
    for the usual work, and grows with what the options ask for; `allowed` stands for it and the other limits. `share`: only these ranks,
    the others being elsewhere. `InfrastructureError` where the machine, not the backend, is to blame.
    """
    allowed = allowed or Limits(seconds=deadline * limits.work(options or {}))
    try:
        return _run(case, backend, options or {}, allowed, share)
    except OSError as error:
        msg = f"the machine failed case {case.id} on {backend}: {error}"
        raise InfrastructureError(msg) from error


def _run(
    case: Case, backend: str, options: Mapping[str, str], allowed: Limits, share: Share | None
) -> Outcome:
    module = plugins.load("workers.backends", backend)
    zygote = zygote_with(module.PRELOAD)
    with tempfile.TemporaryDirectory(prefix="difftest-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {**module.environment(case), **options}
        request = {
            "case": case.to_json().decode(),
            "backend": backend,
            "folder": name,
            "environment": environment,
        }
        ranks = _attend(zygote, request, share or range(module.processes(case)), folder, allowed)
        outcome = _outcome(folder, ranks, allowed)
        if isinstance(outcome, Failure) and (reason := limits.strained(folder)):
            msg = f"case {case.id} failed on {backend} while {reason}"
            raise InfrastructureError(msg)
        return outcome


def _attend(
    zygote: Zygote, request: Mapping[str, Any], asked: range | Share, folder: Path, allowed: Limits
) -> _Ranks:
    """Starts the ranks and waits until all have ended, a limit is passed, or one's failure has doomed the rest."""
    number, ranks = (
        f"{os.getpid()}-{next(_numbers)}",
        _Ranks(asked.ranks if isinstance(asked, Share) else asked),
    )
    replies = zygote.open(number)
    end = (
        time.monotonic() + allowed.seconds
    )  # counted from here: a zygote's first start is not the run's fault
    try:
        for rank in ranks.wanted:
            met = (
                {"rendezvous": asked.rendezvous, "local": asked.variables(rank)}
                if isinstance(asked, Share)
                else {}
            )
            zygote.fork({**request, **met, "run": number, "rank": rank})
        while not ranks.done and not ranks.excess and time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                ranks.hear(
                    replies.get(timeout=max(0.0, min(limits.WATCH_SECONDS, end - time.monotonic()))), folder
                )
            ranks.excess = limits.excess(allowed, folder, ranks.running())
            if ranks.first_failed is not None:
                end = min(end, time.monotonic() + GRACE_SECONDS)
        if not ranks.excess and len(ranks.pids) < len(ranks.wanted):
            zygote.kill()
            msg = f"the process that forks workers forked {len(ranks.pids)} of {len(ranks.wanted)} ranks in {allowed.seconds:g} s"
            raise InfrastructureError(msg)
        if not ranks.done and not ranks.excess and ranks.first_failed is None:
            ranks.ask_where()
    finally:
        ranks.kill()
        zygote.close(number)
    return ranks


def _failed(folder: Path, rank: int, status: int) -> bool:
    """Whether a rank that ended with `status` left anything else than a result."""
    outcome = folder / f"rank{rank}.json"
    return bool(status) or not outcome.exists() or outcome.read_bytes().startswith(b'{"failure"')


def _outcome(folder: Path, ranks: _Ranks, allowed: Limits) -> Outcome:
    ranks.require_untouched(folder)
    if failure := _ended_early(folder, ranks, allowed):
        return dataclasses.replace(failure, environment=spool.versions(folder, failure.rank))
    traces = [outcome for rank in ranks.wanted if isinstance(outcome := spool.read(folder, rank), Trace)]
    return reduce(Trace.merged, traces)


def _ended_early(folder: Path, ranks: _Ranks, allowed: Limits) -> Failure | None:
    """The failure that stands for the run; None where every rank left its result."""
    if ranks.excess is not None:
        return _beyond(folder, ranks.excess)
    if ranks.first_failed is not None:
        return _first_of_alike(folder, ranks.first_failed, ranks.statuses)
    return None if ranks.done else _hang(folder, ranks, allowed.seconds)


def _beyond(folder: Path, excess: Excess) -> Failure:
    stage, step = _stage(folder, excess.rank)
    log = _log(folder, excess.rank)[-LOG_CHARACTERS:]
    return Failure(
        symptom=Symptom.CRASH,
        stage=stage,
        step=step,
        kind=excess.kind,
        message=excess.message,
        log=log,
        rank=excess.rank,
    )


def _first_of_alike(folder: Path, heard: int, statuses: Mapping[int, int]) -> Failure:
    """The failure of the rank that was heard of first; of the lowest rank that failed in the same way, lest it depend on who was faster."""
    first = _failure(folder, heard, statuses[heard])
    for rank in sorted(
        rank for rank, status in statuses.items() if rank < heard and _failed(folder, rank, status)
    ):
        other = _failure(folder, rank, statuses[rank])
        if (other.kind, other.frame, other.stage, other.step) == (
            first.kind,
            first.frame,
            first.stage,
            first.step,
        ):
            return other
    return first


def _failure(folder: Path, rank: int, status: int) -> Failure:
    outcome = spool.read(folder, rank)
    if isinstance(outcome, Failure):
        return outcome
    stage, step = _stage(folder, rank)
    kind = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    log = _log(folder, rank)
    known: dict[str, Any] = {
        "message": _fatal_line(log),
        "frame": native.where(log),
        "log": native.readable(log, LOG_CHARACTERS),
    }
    return Failure(symptom=Symptom.CRASH, stage=stage, step=step, kind=kind, rank=rank, **known)


def _hang(folder: Path, ranks: _Ranks, deadline: float) -> Failure:
    """The run's first rank that did not end stands for it, with where it was; which rank waits for which cannot be seen from outside."""
    rank = min(set(ranks.wanted) - set(ranks.statuses))
    stage, step = _stage(folder, rank)
    message, log = (
        f"not finished after {deadline:g} s; ranks that ended: {sorted(ranks.statuses)}",
        _log(folder, rank),
    )
    where: dict[str, Any] = {"frame": native.called(log), "log": log[-LOG_CHARACTERS:]}
    return Failure(
        symptom=Symptom.HANG, stage=stage, step=step, kind="deadline", message=message, rank=rank, **where
    )


def _stage(folder: Path, rank: int) -> tuple[Stage, int]:
    """The last stage that a rank began; the first one when it left no word of any, as on a full disk."""
    file = folder / f"rank{rank}.stage"
    name, _, step = (file.read_text().strip() if file.exists() else "").partition(" ")
    return Stage(name or Stage.BUILD), int(step or 0)


def _log(folder: Path, rank: int) -> str:
    """The end of what a rank said on standard error."""
    file = folder / f"rank{rank}.err"
    if not file.exists():
        return ""
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LOG_BYTES))
        return log.read().decode(errors="replace")


def _fatal_line(log: str) -> str:
    """The line of a log that says why the process died: a CHECK failure, an abort message, or faulthandler's first."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = [
        line
        for line in lines
        if "Check failed" in line or line.startswith(("F0", "F1", "Fatal Python error", "terminate called"))
    ]
    return (told or lines or [""])[0]
