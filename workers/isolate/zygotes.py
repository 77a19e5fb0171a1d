"""The parent's end of the zygotes: started when first needed, and again after they died.

Every zygote process has a listener of its own, which passes a reply on to the run that it is about. So the
end of one process is never reported to the runs of its successor.
"""

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from difftest.errors import InfrastructureError
from workers.isolate.environment_variables import without_secrets

# Ends the wait for a process that hangs; one that dies is noticed at once. On a busy machine of two CPUs,
# torch_xla was seen to take more than 180 s to import.
START_SECONDS = 600.0
STOP_SECONDS = 3.0
PATH_VARIABLE = "PYTHONPATH"
ROOT = Path(__file__).parents[2]


class Zygote:
    """The parent's end of one `workers.zygote` process, started when first needed and after its death."""

    def __init__(self, preload: Sequence[str], python: str = sys.executable) -> None:
        # -P: a folder `torch` in the working directory is not the package
        self._command = [python, "-P", "-m", "workers.zygote", *preload]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._replies = _Replies()

    def warm(self) -> None:
        """Makes sure that the process is ready, which takes seconds where it is not running."""
        with self._lock:
            if self._process is None or self._replies.gone or self._process.poll() is not None:
                self.kill()
                self._start()

    def open(self, run: str) -> "queue.Queue[dict[str, Any]]":
        """A queue that receives this run's replies."""
        self.warm()
        return self._replies.open(run)

    @property
    def pid(self) -> int:
        """The id of the process, which is running or was."""
        assert self._process is not None  # noqa: S101  opened before
        return self._process.pid

    def close(self, run: str) -> None:
        """Removes the queue of a run."""
        self._replies.close(run)

    def fork(self, request: Mapping[str, Any]) -> None:
        """Requests one rank. Raises `InfrastructureError` when the process is gone."""
        process = self._process
        try:
            assert process is not None and process.stdin is not None  # noqa: S101, PT018  opened before
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: another run has closed the pipe
            self.kill()
            msg = f"the process that forks workers is gone: {error}"
            raise InfrastructureError(msg) from error

    def stop(self) -> None:
        """Ends the process and what it forked."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()  # type: ignore[union-attr]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            self.kill()

    def kill(self) -> None:
        """Kills a process that does not answer or is about to die, and closes its files.

        Its ranks die with it. What listens to its replies closes their pipe.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            with contextlib.suppress(OSError):  # a request that was not passed on
                self._process.stdin.close()  # type: ignore[union-attr]
            self._log.close()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603  our own module under a chosen interpreter
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env=environment(),
        )
        self._replies = _Replies()
        threading.Thread(target=self._replies.listen, args=(self._process,), daemon=True).start()
        if not self._replies.ready.wait(START_SECONDS) or self._process.poll() is not None:
            self._log.seek(0)
            reason = (self._log.read().strip().splitlines() or ["no reason given"])[-1]
            self.kill()
            msg = (
                f"the process that forks workers did not start: {reason} "
                "(`difftest doctor` says what is missing)"
            )
            raise InfrastructureError(msg)


def environment() -> dict[str, str]:
    """The environment variables that a zygote is started with.

    They hold no secrets. Where this is a checkout and not an installed package, `PYTHONPATH` begins with the
    checkout.
    """
    kept = without_secrets(os.environ.items())
    return kept | {PATH_VARIABLE: os.pathsep.join(filter(None, (*checkout(), kept.get(PATH_VARIABLE))))}


def checkout() -> list[str]:
    """The checkout that this is run from; none of an installed package."""
    return [str(ROOT)] if (ROOT / "pyproject.toml").is_file() else []


class _Replies:
    """The replies of one zygote process: each goes to its run, the end of the process to all runs."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.gone = False
        self._lock = threading.Lock()
        self._runs: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._owners: dict[int, str] = {}

    def open(self, run: str) -> "queue.Queue[dict[str, Any]]":
        with self._lock:
            self._runs[run] = queue.Queue()
            if self.gone:
                self._runs[run].put({"gone": True})
            return self._runs[run]

    def close(self, run: str) -> None:
        with self._lock:
            self._runs.pop(run, None)

    def listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None  # noqa: S101  a pipe
        with process.stdout as replies:
            for line in replies:
                self._deliver(json.loads(line))
        with self._lock:
            self.gone = True
            for waiting in self._runs.values():
                waiting.put({"gone": True})
        self.ready.set()

    def _deliver(self, reply: dict[str, Any]) -> None:
        if "ready" in reply:
            self.ready.set()
            return
        with self._lock:
            run = reply["run"] if "run" in reply else self._owners.pop(reply["pid"])
            if "run" in reply:
                self._owners[reply["pid"]] = run
            if run in self._runs:
                self._runs[run].put(reply)


_zygotes: dict[tuple[str, ...], Zygote] = {}
_zygotes_lock = threading.Lock()


def zygote_with(preload: tuple[str, ...]) -> Zygote:
    """The zygote that has imported these modules: one in each process, for all callers."""
    with _zygotes_lock:
        if preload not in _zygotes:
            _zygotes[preload] = Zygote(preload)
            atexit.register(_zygotes[preload].stop)
        return _zygotes[preload]
