"""One run, isolated: every rank a process of its own, forked from a warm zygote, with a deadline for the whole.

Whatever the ranks do - finish, raise, abort, crash, hang - comes out as an `Outcome`; what is wrong with the machine itself
(the zygote gone, a full disk) as `InfrastructureError`. A child's process group dies with its run.
"""

import atexit
import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from difftest import plugins
from difftest.case import Case
from difftest.errors import InfrastructureError
from difftest.outcome import Failure, Outcome, Stage, Symptom, Trace
from workers import native, spool

DEADLINE_SECONDS = 60.0
START_SECONDS = 180.0
GRACE_SECONDS = 3.0
"""How long the other ranks may go on once one has failed: enough to fail by themselves, not to wait out a collective."""

LOG_CHARACTERS = 8000


class Zygote:
    """The parent's end of one `workers.zygote` process: it starts when first needed and again after it died."""

    def __init__(self, preload: Sequence[str], python: str = sys.executable) -> None:
        self._command = [python, "-m", "workers.zygote", *preload]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._runs: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._owners: dict[int, str] = {}

    def open(self, run: str) -> "queue.Queue[dict[str, Any]]":
        """A queue that receives this run's replies."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            self._runs[run] = queue.Queue()
            return self._runs[run]

    def close(self, run: str) -> None:
        """Forgets a run."""
        with self._lock:
            self._runs.pop(run, None)

    def fork(self, request: Mapping[str, Any]) -> None:
        """Asks for one rank."""
        process = self._process
        try:
            assert process is not None and process.stdin is not None  # noqa: S101, PT018  opened before
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError as error:
            msg = f"the process that forks workers is gone: {error}"
            raise InfrastructureError(msg) from error

    def stop(self) -> None:
        """Ends the process and what it forked."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()  # type: ignore[union-attr]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
            self._process.kill()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603  our own module under a chosen interpreter
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self._process, ready), daemon=True).start()
        if not ready.wait(START_SECONDS) or self._process.poll() is not None:
            self._process.kill()
            self._log.seek(0)
            reason = (self._log.read().strip().splitlines() or ["no reason given"])[-1]
            msg = f"the process that forks workers did not start: {reason} (`difftest doctor` tells what is missing)"
            raise InfrastructureError(msg)

    def _listen(self, process: "subprocess.Popen[str]", ready: threading.Event) -> None:
        for line in process.stdout or ():
            self._deliver(json.loads(line), ready)
        ready.set()
        with self._lock:
            for waiting in self._runs.values():
                waiting.put({"gone": True})

    def _deliver(self, reply: dict[str, Any], ready: threading.Event) -> None:
        if "ready" in reply:
            ready.set()
            return
        with self._lock:
            run = reply["run"] if "run" in reply else self._owners.pop(reply["pid"])
            if "run" in reply:
                self._owners[reply["pid"]] = run
            if run in self._runs:
                self._runs[run].put(reply)


@dataclass(slots=True)
class _Ranks:
    """What is known of a run's processes."""

    wanted: int
    pids: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    first_failed: int | None = None

    @property
    def done(self) -> bool:
        return len(self.statuses) == self.wanted

    def hear(self, reply: Mapping[str, Any], folder: Path) -> None:
        if "gone" in reply:
            msg = "the process that forks workers died during a run"
            raise InfrastructureError(msg)
        if "status" not in reply:
            self.pids[reply["pid"]] = reply["rank"]
            return
        rank = self.pids[reply["pid"]]
        self.statuses[rank] = reply["status"]
        if self.first_failed is None and (reply["status"] or not _finished(folder, rank)):
            self.first_failed = rank

    def kill(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


_zygotes: dict[tuple[str, ...], Zygote] = {}
_zygotes_lock = threading.Lock()
_numbers = itertools.count()


def run(case: Case, backend: str, *, deadline: float = DEADLINE_SECONDS, options: Mapping[str, str] | None = None) -> Outcome:
    """Runs `case` on `backend` in fresh processes and says what came of it.

    `options` are further environment variables of the children (a variant, an ablation, a planted fault). `deadline` is in seconds.
    """
    module = plugins.load("workers.backends", backend)
    zygote = _zygote(module.PRELOAD)
    with tempfile.TemporaryDirectory(prefix="difftest-") as name:
        folder = Path(name)
        environment = {**module.environment(case), **(options or {})}
        request = {"case": case.to_json().decode(), "backend": backend, "folder": name, "environment": environment}
        ranks = _attend(zygote, request, module.processes(case), folder, deadline)
        return _outcome(folder, ranks, deadline)


def _zygote(preload: tuple[str, ...]) -> Zygote:
    with _zygotes_lock:
        if preload not in _zygotes:
            _zygotes[preload] = Zygote(preload)
            atexit.register(_zygotes[preload].stop)
        return _zygotes[preload]


def _attend(zygote: Zygote, request: Mapping[str, Any], processes: int, folder: Path, deadline: float) -> _Ranks:
    """Starts the ranks and waits until all have ended, the deadline is over, or one's failure has doomed the rest."""
    number, ranks = f"{os.getpid()}-{next(_numbers)}", _Ranks(processes)
    replies = zygote.open(number)
    end = time.monotonic() + deadline  # counted from here: a zygote's first start is not the run's fault
    try:
        for rank in range(processes):
            zygote.fork({**request, "run": number, "rank": rank})
        while not ranks.done and time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                ranks.hear(replies.get(timeout=max(0.0, min(GRACE_SECONDS, end - time.monotonic()))), folder)
            if ranks.first_failed is not None:
                end = min(end, time.monotonic() + GRACE_SECONDS)
    finally:
        ranks.kill()
        zygote.close(number)
    return ranks


def _finished(folder: Path, rank: int) -> bool:
    outcome = folder / f"rank{rank}.json"
    return outcome.exists() and not outcome.read_bytes().startswith(b'{"failure"')


def _outcome(folder: Path, ranks: _Ranks, deadline: float) -> Outcome:
    if ranks.first_failed is not None:
        return _failure(folder, ranks.first_failed, ranks.statuses[ranks.first_failed])
    if not ranks.done:
        return _hang(folder, ranks, deadline)
    traces = [outcome for rank in range(ranks.wanted) if isinstance(outcome := spool.read(folder, rank), Trace)]
    return reduce(Trace.merged, traces)


def _failure(folder: Path, rank: int, status: int) -> Failure:
    outcome = spool.read(folder, rank)
    if isinstance(outcome, Failure):
        return outcome
    stage, step = _stage(folder, rank)
    kind = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    log = _log(folder, rank)
    known: dict[str, Any] = {"message": _fatal_line(log), "frame": native.where(log), "log": native.readable(log)[-LOG_CHARACTERS:]}
    return Failure(symptom=Symptom.CRASH, stage=stage, step=step, kind=kind, rank=rank, **known)


def _hang(folder: Path, ranks: _Ranks, deadline: float) -> Failure:
    """The run's first rank that did not end stands for it; which rank waits for which cannot be seen from outside."""
    rank = min(set(range(ranks.wanted)) - set(ranks.statuses))
    stage, step = _stage(folder, rank)
    message = f"not finished after {deadline:g} s; ranks that ended: {sorted(ranks.statuses)}"
    return Failure(
        symptom=Symptom.HANG, stage=stage, step=step, kind="deadline", message=message, log=_log(folder, rank)[-LOG_CHARACTERS:], rank=rank
    )


def _stage(folder: Path, rank: int) -> tuple[Stage, int]:
    file = folder / f"rank{rank}.stage"
    name, _, step = file.read_text().strip().partition(" ") if file.exists() else ("build", "", "0")
    return Stage(name), int(step)


def _log(folder: Path, rank: int) -> str:
    file = folder / f"rank{rank}.err"
    return file.read_text(errors="replace") if file.exists() else ""


def _fatal_line(log: str) -> str:
    """The line of a log that says why the process died: a CHECK failure, an abort message, or faulthandler's first."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = [line for line in lines if "Check failed" in line or line.startswith(("F0", "F1", "Fatal Python error", "terminate called"))]
    return (told or lines or [""])[0]
