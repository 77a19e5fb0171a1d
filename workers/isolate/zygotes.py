"""The connections of a process to its zygotes: made when first needed, and again after a zygote died.

Every connection has a listener of its own, which passes a reply on to the run that it is about. So the end of
one zygote is never reported to the runs of its successor.
"""

import atexit
import os
import queue
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import DecodeError

from difftest.ground.errors import InfrastructureError
from difftest.ground.inherited import inherited
from difftest.ground.own_folder import own_folder, short_parent
from workers.isolate import messages
from workers.isolate.messages import Began, ForkRequest, Gone, OfRun, Ready, Reply, ZygoteRequest
from workers.isolate.zygote_places import ZygotePlace
from workers.torch import process_groups

# Ends the wait for a process that hangs; one that dies is noticed at once. On a busy machine of two CPUs,
# torch_xla was seen to take more than 180 s to import.
START_SECONDS = 600.0
STOP_SECONDS = 3.0
PATH_VARIABLE = "PYTHONPATH"
ROOT = Path(__file__).parents[2]

LONGEST_PARENT = 50
"""How long the name of the temporary folder may be for a socket in a folder of ours (`zygote_places`)."""

BASE = process_groups.PRELOAD
"""The modules of the first zygote. One that imports more than these is forked from it, in less time."""

USED_BY_OTHERS: list["subprocess.Popen[bytes]"] = []
"""What this process started and no longer uses, though it runs on: a `Popen` that is dropped then warns."""


class Zygote:
    """The connection to the zygote that has imported `preload`.

    `folder` is that of its socket. Other processes may use it too, and one of them may have started it.
    `base` is the zygote that it is forked from; without a base it is a program of its own.
    """

    def __init__(self, preload: tuple[str, ...], folder: Path, base: "Zygote | None" = None) -> None:
        self._preload, self._folder, self._base = preload, folder, base
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._replies: _Replies | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def warm(self) -> None:
        """Makes sure that the zygote is ready, which takes seconds where none is running."""
        with self._lock:
            while self._replies is None or self._replies.closed():
                self._connect()

    def open(self, run: str) -> "queue.Queue[OfRun]":
        """A queue that receives this run's replies."""
        self.warm()
        return self._connected().open(run)

    @property
    def pid(self) -> int:
        """The id of the process, which is running or was."""
        return self._connected().pid

    def close(self, run: str) -> None:
        """Removes the queue of a run."""
        self._connected().close(run)

    def fork(self, request: ForkRequest) -> None:
        """Requests one process. Raises `InfrastructureError` when the process is gone."""
        try:
            with self._sending:
                self._connected().connection.sendall(messages.line(request))
        except OSError as error:
            self.kill()
            msg = f"the process that forks workers is gone: {error}"
            raise InfrastructureError(msg) from error

    def stop(self) -> None:
        """Ends this connection and what was forked for it. The zygote ends if it has no other."""
        if self._replies:
            with suppress(OSError):
                self._replies.connection.shutdown(socket.SHUT_WR)
            if not self._replies.ended.wait(STOP_SECONDS):
                self.kill()
        if self._process:
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                USED_BY_OTHERS.append(self._process)

    def kill(self) -> None:
        """Kills a zygote that does not answer or is about to die.

        Its ranks die with it, whoever requested them.
        """
        if self._replies:
            self._replies.kill()
        if self._process:
            self._process.kill()
            self._process.wait()

    def _connected(self) -> "_Replies":
        assert self._replies  # noqa: S101  opened before
        return self._replies

    def _connect(self) -> None:
        """Connects to the zygote that runs, or starts it. One that runs may end before it answers."""
        place = ZygotePlace(folder=self._folder, preload=self._preload, variables=environment())
        self.kill()  # it is dead already, and what this process started it must wait for
        self._process, started = None, 0
        with place.locked():
            connection = place.connected()
            if connection is None:
                started = self._start(place)
                connection = place.connected()
        if connection is None:
            raise _not_started(place)
        self._replies = _Replies(connection, started)
        answered = self._replies.answered.wait(START_SECONDS)
        if not answered or (started and self._replies.closed()):
            self.kill()
            raise _not_started(place)

    def _start(self, place: ZygotePlace) -> int:
        """Starts the zygote and returns its process id."""
        if not self._base:
            self._process = place.start()
            return self._process.pid
        place.log.unlink(missing_ok=True)
        run, more = str(place.address), self._preload[len(self._base._preload) :]  # noqa: SLF001  of the class
        replies = self._base.open(run)
        self._base.fork(ZygoteRequest(run=run, preload=more, address=run, log=str(place.log)))
        try:
            reply = replies.get(timeout=START_SECONDS)
            return 0 if isinstance(reply, Gone) else reply.pid
        except queue.Empty:
            return 0
        finally:
            self._base.close(run)


def _not_started(place: ZygotePlace) -> InfrastructureError:
    msg = (
        f"the process that forks workers did not start: {place.reason()} "
        "(`difftest doctor` says what is missing)"
    )
    return InfrastructureError(msg)


def environment() -> dict[str, str]:
    """The environment variables that a zygote is started with.

    They hold no secrets (`difftest.ground.inherited`). Where this is a checkout and not an installed package,
    `PYTHONPATH` begins with the checkout.
    """
    kept = inherited(os.environ)
    return kept | {PATH_VARIABLE: os.pathsep.join(filter(None, (*checkout(), kept.get(PATH_VARIABLE))))}


def checkout() -> list[str]:
    """The checkout that this is run from; none of an installed package."""
    return [str(ROOT)] if (ROOT / "pyproject.toml").is_file() else []


class _Replies:
    """A connection's replies: each goes to its run, the end of the connection to all runs.

    `pid` is the zygote's process id, 0 until it has said so where another process started it.
    """

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection, self.pid = connection, pid
        self.answered, self.ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._runs: dict[str, queue.Queue[OfRun]] = {}
        self._owners: dict[int, str] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def open(self, run: str) -> "queue.Queue[OfRun]":
        with self._lock:
            self._runs[run] = queue.Queue()
            if self.ended.is_set():
                self._runs[run].put(Gone())
            return self._runs[run]

    def close(self, run: str) -> None:
        with self._lock:
            self._runs.pop(run, None)

    def closed(self) -> bool:
        """Whether the zygote is gone, which the kernel knows before the listener has read it."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def kill(self) -> None:
        """Kills the zygote if it lives, and ends the connection."""
        if self.pid and not self.closed():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        # a zygote that was killed may leave half a line
        with self.connection, self.connection.makefile("rb") as replies, suppress(OSError, DecodeError):
            for line in replies:
                self._deliver(messages.REPLIES.decode(line))
        with self._lock:
            self.ended.set()
            for waiting in self._runs.values():
                waiting.put(Gone())
        self.answered.set()

    def _deliver(self, reply: Reply) -> None:
        if isinstance(reply, Ready):
            self.pid = reply.pid
            self.answered.set()
            return
        with self._lock:
            if isinstance(reply, Began):
                run = self._owners[reply.pid] = reply.run
            else:
                run = self._owners.pop(reply.pid)
            if run in self._runs:
                self._runs[run].put(reply)


_zygotes: dict[tuple[str, ...], Zygote] = {}
_zygotes_lock = threading.RLock()
_folders: list[Path] = []
_at_exit = ExitStack()
atexit.register(_at_exit.close)


def zygote_with(preload: tuple[str, ...]) -> Zygote:
    """The zygote that has imported these modules: one connection in each process, for all callers."""
    with _zygotes_lock:
        if preload not in _zygotes:
            more = preload != BASE and preload[: len(BASE)] == BASE
            _zygotes[preload] = Zygote(preload, _folder(), zygote_with(BASE) if more else None)
            _at_exit.callback(_zygotes[preload].stop)
        return _zygotes[preload]


def share(folder: Path) -> None:
    """From now on this process uses the zygotes of all processes that share this folder.

    Without this call it has zygotes of its own.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    _folders[:] = [folder]


def _folder() -> Path:
    """The folder of the sockets, by default one of this process, which is removed as it ends."""
    if not _folders:
        _folders.append(_at_exit.enter_context(own_folder("zygotes", short_parent(LONGEST_PARENT))))
    return _folders[0]
