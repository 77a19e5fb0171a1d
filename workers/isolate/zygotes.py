"""The parent's end of the zygotes: they start when first needed and again after they died, and what each says goes to the run it is about.

Every process that was started has a listener of its own, so that the end of one is never told to the runs of its successor.
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
from workers.isolate import limits

START_SECONDS = 180.0
STOP_SECONDS = 3.0
PATH_VARIABLE = "PYTHONPATH"
ROOT = Path(__file__).parents[2]


class Zygote:
    """The parent's end of one `workers.zygote` process: it starts when first needed and again after it died."""

    def __init__(self, preload: Sequence[str], python: str = sys.executable) -> None:
        self._command = [
            python,
            "-P",
            "-m",
            "workers.zygote",
            *preload,
        ]  # -P: a folder `torch` where the user stands is not torch
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._heard = _Heard()

    def warm(self) -> None:
        """Has the process ready; that takes seconds where there is none."""
        with self._lock:
            if self._process is None or self._heard.gone or self._process.poll() is not None:
                self.kill()
                self._start()

    def open(self, run: str) -> "queue.Queue[dict[str, Any]]":
        """A queue that receives this run's replies."""
        self.warm()
        return self._heard.open(run)

    def close(self, run: str) -> None:
        """Forgets a run."""
        self._heard.close(run)

    def fork(self, request: Mapping[str, Any]) -> None:
        """Asks for one rank."""
        process = self._process
        try:
            assert process is not None and process.stdin is not None  # noqa: S101, PT018  opened before
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError as error:
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
            self._process.kill()

    def kill(self) -> None:
        """Ends a process that does not answer, or that is about to be dead; its ranks die with it (`workers.zygote`)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

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
        self._heard = _Heard()
        threading.Thread(target=self._heard.listen, args=(self._process,), daemon=True).start()
        if not self._heard.ready.wait(START_SECONDS) or self._process.poll() is not None:
            self._process.kill()
            self._log.seek(0)
            reason = (self._log.read().strip().splitlines() or ["no reason given"])[-1]
            msg = f"the process that forks workers did not start: {reason} (`difftest doctor` tells what is missing)"
            raise InfrastructureError(msg)


def environment() -> dict[str, str]:
    """The variables that a zygote is started with: no secrets, and the way to this checkout, where this is one and not installed."""
    known = limits.without_secrets(os.environ.items())
    ways = [str(ROOT)] if (ROOT / "pyproject.toml").is_file() else []
    return known | {PATH_VARIABLE: os.pathsep.join(filter(None, (*ways, known.get(PATH_VARIABLE))))}


class _Heard:
    """What one zygote process says, handed to the run it is about; that the process is gone, to all of them."""

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
        for line in process.stdout or ():
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
    """The zygote with these modules imported: one a process, for all that ask."""
    with _zygotes_lock:
        if preload not in _zygotes:
            _zygotes[preload] = Zygote(preload)
            atexit.register(_zygotes[preload].stop)
        return _zygotes[preload]
