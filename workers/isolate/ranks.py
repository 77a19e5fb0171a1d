"""The processes of one run: forked, watched until they end, hang or exceed a limit, and killed."""

import contextlib
import itertools
import os
import queue
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from difftest.ground.errors import OUT_OF_MEMORY, InfrastructureError, LethalError
from workers.isolate import limits, native_frames, processes, run_folder
from workers.isolate.limits import Excess, RunLimits
from workers.isolate.messages import Began, Gone, Meeting, OfRun, RankRequest, Work
from workers.isolate.progress import ProgressSample, RunProgress
from workers.isolate.zygotes import Zygote

FRAMES_SECONDS, FRAMES_SECONDS_MOST = 0.5, 5.0
"""How long ranks that hang have to write their frames; the longer time where the lowest left none yet."""

FORK_SECONDS = 30.0
"""How long the zygote of a run that has ended may take to fork the rest of its ranks; one takes 0.1 s."""

SAMPLES_A_DEADLINE = 30
"""How often in a deadline the progress of a run is looked at."""

FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""No framework ends itself by these: the kernel did for lack of memory, or a scheduler or a person did."""

MEMORY_WAS_SHORT = "the kernel killed a process of the run because memory was short"
"""The message of a `LethalError`, the same whichever process it was: it is part of a finding's identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """One node's share of a run that several nodes make together.

    `ranks` run on this node; those of all nodes meet at `rendezvous` (`workers.torch.rendezvous`).
    """

    ranks: range
    rendezvous: str

    def variables(self, rank: int) -> dict[str, str]:
        """The environment variables that give a rank its place on its node, with torchrun's names."""
        return {"LOCAL_RANK": str(rank - self.ranks.start), "LOCAL_WORLD_SIZE": str(len(self.ranks))}

    def meeting(self, rank: int) -> Meeting:
        """Where a rank meets the others, and its place on this node."""
        return Meeting(rendezvous=self.rendezvous, local=self.variables(rank))


@dataclass(slots=True)
class Ranks:
    """What is recorded of a run's processes on this machine.

    `expected` are the ranks that this machine has, `folders` those of the cases that each of them runs, one
    after another (`run_folder`). `pids` gives the rank of a process, `statuses` the exit status of a rank
    that has ended (negative for a signal), `failed` says whether any left something else than traces, `hang`
    why the run hangs, `gone` whether the zygote has died. `killed_before` is `processes.killed_for_memory()`
    as the run began, `begun` has the case that a rank was last known to have begun.
    """

    expected: range
    folders: Sequence[Path]
    pids: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    failed: bool = False
    excess: Excess | None = None
    hang: str | None = None
    gone: bool = False
    killed_before: int = field(default_factory=processes.killed_for_memory)
    begun: dict[int, int] = field(default_factory=dict)

    def case_of(self, rank: int) -> int:
        """The index of the case that a rank has begun last."""
        index = self.begun.get(rank, 0)
        while index + 1 < len(self.folders) and run_folder.began(self.folders[index + 1], rank):
            index += 1
        self.begun[rank] = index
        return index

    def folder_of(self, rank: int) -> Path:
        """The folder of the case that a rank has begun last."""
        return self.folders[self.case_of(rank)]

    def case(self) -> int:
        """The index of the last case that every rank has begun."""
        return min(map(self.case_of, self.expected))

    def finished(self, rank: int, case: int) -> bool:
        """Whether a rank has left a trace of a case, and then went on to the next one or ended well."""
        went_on = self.case_of(rank) > case or self.statuses.get(rank) == 0
        return went_on and run_folder.finished(self.folders[case], rank)

    @property
    def done(self) -> bool:
        """Whether every rank has ended."""
        return len(self.statuses) == len(self.expected)

    def running(self) -> dict[int, int]:
        """The processes that have not ended, with their ranks."""
        return {pid: rank for pid, rank in self.pids.items() if rank not in self.statuses}

    def record(self, reply: OfRun) -> None:
        """Takes one reply of the zygote into account. Raises `InfrastructureError` when the zygote died."""
        if isinstance(reply, Gone):
            self.gone = True
            self._raise_if_short_of_memory()
            msg = "the process that forks workers died during a run"
            raise InfrastructureError(msg)
        if isinstance(reply, Began):
            self.pids[reply.pid] = reply.rank
            return
        rank = self.pids[reply.pid]
        self.statuses[rank] = reply.status
        self.failed = self.failed or run_folder.failed(self.folder_of(rank), rank, reply.status)

    def require_ended_by_itself(self) -> None:
        """Raises `InfrastructureError` when a rank was ended by something else than its own framework.

        A `LethalError` where the kernel did because memory was short.
        """
        for rank, status in self.statuses.items():
            if -status in FROM_OUTSIDE:
                if -status == signal.SIGKILL:
                    self._raise_if_short_of_memory()
                msg = f"rank {rank} was killed from outside by {signal.Signals(-status).name}"
                raise InfrastructureError(msg)
            if status == run_folder.MACHINE_STATUS:
                lines = run_folder.log(self.folder_of(rank), rank).strip().splitlines()
                msg = f"the machine failed rank {rank}: {(lines or ['no reason given'])[-1]}"
                raise InfrastructureError(msg)

    def _raise_if_short_of_memory(self) -> None:
        """Raises `LethalError` when the kernel has killed a process for memory since the run began."""
        if processes.killed_for_memory() > self.killed_before:
            raise LethalError(MEMORY_WAS_SHORT, kind=OUT_OF_MEMORY)

    def request_frames(self) -> None:
        """Makes ranks that hang write their Python frames to their logs."""
        running = self.running()
        lowest = min(running.values(), default=0)
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, run_folder.FRAMES_SIGNAL)
        time.sleep(FRAMES_SECONDS)
        end = time.monotonic() + FRAMES_SECONDS_MOST
        while time.monotonic() < end:  # on a busy machine a signal is late
            if native_frames.python_frame(run_folder.log(self.folder_of(lowest), lowest)):
                return
            time.sleep(FRAMES_SECONDS)

    def know_forked(self, replies: "queue.Queue[OfRun]") -> bool:
        """Waits for the ids of all processes, without which none could be killed.

        A run may end before the zygote has forked all its ranks. False where the zygote does not say the ids,
        and lives; what a dead one forked is dead.
        """
        end = time.monotonic() + FORK_SECONDS
        while not self.gone and len(self.pids) < len(self.expected):
            try:
                reply = replies.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return False
            with contextlib.suppress(InfrastructureError):
                self.record(reply)
        return True

    def kill(self) -> None:
        """Kills every process of the run with its children."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


_numbers = itertools.count()


def run_ranks(zygote: Zygote, work: Work, share: range | NodeShare, allowed: RunLimits) -> Ranks:
    """Starts the ranks and waits until all have ended, hang, exceed a limit, or a failure has ended the rest.

    No process of the run is left when this returns. Raises `InfrastructureError` when the zygote dies or does
    not fork, or the machine is too busy.
    """
    number = f"{os.getpid()}-{next(_numbers)}"
    ranks = Ranks(share.ranks if isinstance(share, NodeShare) else share, [*map(Path, work.folders)])
    replies = zygote.open(number)  # first: a zygote's start is not the run's time
    try:
        for rank in ranks.expected:
            meeting = share.meeting(rank) if isinstance(share, NodeShare) else None
            zygote.fork(RankRequest(run=number, rank=rank, work=work, meeting=meeting))
        _watch(ranks, replies, allowed, zygote.pid)
        if not ranks.excess and len(ranks.pids) < len(ranks.expected):
            zygote.kill()
            forked = f"{len(ranks.pids)} of {len(ranks.expected)} ranks in {allowed.seconds:g} s"
            msg = f"the process that forks workers forked {forked}"
            raise InfrastructureError(msg)
        if ranks.hang:
            ranks.request_frames()
    finally:
        if not ranks.know_forked(replies):
            zygote.kill()
        ranks.kill()
        zygote.close(number)
    return ranks


def _watch(ranks: Ranks, replies: "queue.Queue[OfRun]", allowed: RunLimits, zygote: int) -> None:
    """Waits until all ranks have ended, or a limit is exceeded, or the run hangs.

    Every case has the whole time that is allowed. Once a rank has failed, the end comes `allowed.grace` later
    at the latest. `zygote` is a process id. Raises `InfrastructureError` where the run gets on and yet does
    not end.
    """
    case, progress = 0, RunProgress(allowed.seconds, _sample(ranks, zygote))
    every, sampled = max(limits.WATCH_SECONDS, allowed.seconds / SAMPLES_A_DEADLINE), time.monotonic()
    watch, failed_at = limits.LimitWatch(allowed, ranks.folders), None
    while not ranks.done and not ranks.excess and not ranks.hang:
        pause = min(limits.WATCH_SECONDS, allowed.grace / 3) if ranks.failed else limits.WATCH_SECONDS
        with contextlib.suppress(queue.Empty):
            ranks.record(replies.get(timeout=pause))
        ranks.excess = watch.excess(ranks.running())
        if time.monotonic() - sampled >= (pause if ranks.failed else every):
            progress.take(_sample(ranks, zygote))
            sampled = time.monotonic()
        if ranks.failed:
            failed_at = progress.own if failed_at is None else failed_at
            if progress.own - failed_at >= allowed.grace or progress.overdue:
                return
            continue
        if (now := ranks.case()) > case:
            case, progress = now, RunProgress(allowed.seconds, _sample(ranks, zygote))
            continue
        ranks.hang = progress.hang
        if not ranks.hang and (reason := progress.overdue):
            raise InfrastructureError(reason)


def _sample(ranks: Ranks, zygote: int) -> ProgressSample:
    """What the run has got to now. Until every rank is forked, its zygote's work is the run's."""
    running = ranks.running()
    forking = len(ranks.pids) < len(ranks.expected)
    pids = [*processes.with_children(running), *[zygote] * forking]
    return ProgressSample(
        time=time.monotonic(),
        cpu={pid: processes.cpu_seconds(pid) for pid in pids},
        waited={thread: seconds for pid in pids for thread, seconds in processes.waited_seconds(pid).items()},
        place=(
            len(ranks.pids),
            len(ranks.statuses),
            *(
                (ranks.case_of(rank), run_folder.stage(ranks.folder_of(rank), rank))
                for rank in sorted(running.values())
            ),
        ),
    )
