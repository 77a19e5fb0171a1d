"""A warm process that forks ranks: it has imported the frameworks and touched no device.

Importing torch and torch_xla takes seconds, a fork of a process that has imported them a tenth of a second.
It is a program of its own (`python -m workers.zygote 3 torch`) rather than the forkserver of
`multiprocessing`, so that several processes can use one zygote, each under its own interpreter with its own
torch, and so that a child never imports its client's main module again.

A zygote listens on a Unix socket whose descriptor it inherits. A client that connects receives `Ready`, and
then sends requests, one a line (`workers.isolate.messages`). The zygote answers `Began` at once, and `Ended`
when the child has ended. A `ZygoteRequest` forks not a rank but a zygote, which imports more modules than
this one and has clients of its own.

When a client is gone, the ranks that it requested are killed. A zygote ends when it has neither clients nor
zygotes left. When it is killed, what it forked dies too, because the kernel ends a child whose parent is
gone.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from difftest.cases.recipe import OFFLINE
from workers.isolate import environment_variables, messages
from workers.isolate.messages import Began, Ended, ForkRequest, RankRequest, Ready, Reply, ZygoteRequest
from workers.isolate.own_imports import AS_WRITTEN
from workers.isolate.zygote_places import listening

FIRST_CLIENT_SECONDS = 60.0
"""How long a zygote waits for its first client, which may have been killed after it started the zygote."""

PARENT_DEATH_SIGNAL, NAME = 1, 15  # PR_SET_PDEATHSIG and PR_SET_NAME in linux/prctl.h
READ_BYTES = 1 << 16

BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""With this variable torch asks NVML whether there are GPUs, and not CUDA.

Modules that torch_xla imports ask, and a CUDA that has been asked cannot be used in a forked process.
"""


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The environment variable by which numpy's and scipy's libraries start no threads as they are imported."""


@dataclass(slots=True, eq=False)
class _Client:
    """Somebody who is connected, and the ranks of theirs that run."""

    connection: socket.socket
    ranks: set[int] = field(default_factory=set)
    unread: bytes = b""

    def fileno(self) -> int:
        """For `select`."""
        return self.connection.fileno()

    def reply(self, message: Reply) -> None:
        """Sends a message, to nobody if the client is gone."""
        with contextlib.suppress(OSError):
            self.connection.sendall(messages.line(message))


def serve(listener: socket.socket, preload: Sequence[str]) -> None:
    """Forks on request until nobody is connected any more."""
    _call_this("zygote")
    gc.disable()  # what imports make stays: looking for garbage in it would take a tenth of their time
    preloaded(preload)
    from workers import child  # after the preload: it imports torch
    from workers.isolate import native_frames

    native_frames.compiled()
    child.warm(preload)
    gc.freeze()  # the ranks need not look through what is imported, nor copy its pages
    gc.enable()
    _Server(listener, child.main).serve()


def preloaded(names: Sequence[str]) -> None:
    """Imports the frameworks without initialising CUDA, and then what a user's model imports.

    Raises `RuntimeError` where that is unfit for forks: it has started threads or used a device.
    """
    of_the_user = [name for name in names if AS_WRITTEN in name]
    with environment_variables.set_to({BY_NVML: "1", **OFFLINE, **ONE_THREAD}):
        for name in names:
            if AS_WRITTEN not in name:
                importlib.import_module(name)
        threads = _threads()
        for name in of_the_user:
            _import_as_written(name)
    if of_the_user and (_threads() > threads or _has_used_a_device()):
        msg = "what the model imports starts threads or uses a device"
        raise RuntimeError(msg)


def _import_as_written(name: str) -> None:
    """Imports what a statement of the user's does; what fails here fails in the ranks, which say so."""
    module, _, attribute = name.partition(AS_WRITTEN)
    with contextlib.suppress(Exception):
        imported = importlib.import_module(module)
        if attribute and not hasattr(imported, attribute):
            importlib.import_module(f"{module}.{attribute}")


def _threads() -> int:
    """The threads of this process; 1 where the system does not list them."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 1


def _has_used_a_device() -> bool:
    torch, torch_xla = sys.modules.get("torch"), sys.modules.get("torch_xla")
    started = getattr(getattr(torch_xla, "_XLAC", None), "_xla_runtime_is_initialized", lambda: False)
    return bool((torch and torch.cuda.is_initialized()) or started())


class _Server:
    """The loop of a zygote: who is connected, and what was forked for whom."""

    def __init__(self, listener: socket.socket, rank: Callable[[RankRequest], None]) -> None:
        self._listener, self._rank = listener, rank
        self._clients: list[_Client] = []
        self._zygotes: dict[int, _Client] = {}
        # the kernel writes to it when a child ends
        self._ended, self._wake = socket.socketpair()

    def serve(self) -> None:
        for end in (self._ended, self._wake):
            end.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        patience = FIRST_CLIENT_SECONDS
        while ready := self._ready(patience):
            if self._ended in ready:
                self._ended.recv(READ_BYTES)
            for client in [client for client in self._clients if client in ready]:
                self._read(client)
            if self._listener in ready:
                self._welcome()
                patience = 0.0
            self._reap()

    def _ready(self, patience: float) -> "list[socket.socket | _Client]":
        """What there is to read from: waits, and if nobody is left no longer than `patience` in seconds."""
        # no selector object: the ranks would inherit it
        used = self._clients or self._zygotes
        every: list[socket.socket | _Client] = [self._listener, self._ended, *self._clients]
        return select.select(every, [], [], None if used else patience)[0]

    def _welcome(self) -> None:
        client = _Client(self._listener.accept()[0])
        self._clients.append(client)
        client.reply(Ready(pid=os.getpid()))

    def _read(self, client: _Client) -> None:
        try:
            received = client.connection.recv(READ_BYTES)
        except ConnectionError:
            received = b""
        if not received:
            self._leave(client)
            return
        *lines, client.unread = (client.unread + received).split(b"\n")
        for line in lines:
            self._start(messages.REQUESTS.decode(line), client)

    def _leave(self, client: _Client) -> None:
        for pid in client.ranks:
            for kill in (os.killpg, os.kill):  # the group is there once the rank has made it
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        client.connection.close()
        self._clients.remove(client)

    def _start(self, request: ForkRequest, client: _Client) -> None:
        if isinstance(request, RankRequest):
            pid = self._forked(lambda: self._become_rank(request))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpgid(pid, pid)  # in the parent too, so that a kill right after finds the group
            client.ranks.add(pid)
            client.reply(Began(run=request.run, rank=request.rank, pid=pid))
        else:
            with listening(Path(request.address)) as listener:
                pid = self._forked(lambda: _serve_further(listener, request))
            self._zygotes[pid] = client
            client.reply(Began(run=request.run, rank=0, pid=pid))

    def _forked(self, work: Callable[[], None]) -> int:
        """The id of a forked process, which does this `work` and nothing of the zygote's."""
        parent, pid = os.getpid(), os.fork()
        if not pid:
            _die_with(parent)
            self._close_all()
            _become(work)
        return pid

    def _become_rank(self, request: RankRequest) -> None:
        _call_this(f"rank {request.rank}")
        os.setpgid(0, 0)
        self._rank(request)

    def _close_all(self) -> None:
        """In what was forked: closes this zygote's own files, and is not told of its children's ends."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for own in (
            self._listener,
            self._ended,
            self._wake,
            *(client.connection for client in self._clients),
        ):
            own.close()

    def _reap(self) -> None:
        for client in self._clients:
            for pid in list(client.ranks):
                if _has_ended(pid, client):
                    client.ranks.remove(pid)
        for pid, client in list(self._zygotes.items()):
            if _has_ended(pid, client):
                del self._zygotes[pid]


def _has_ended(pid: int, client: _Client) -> bool:
    """Whether a child has ended; if so, sends the client its status."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        client.reply(Ended(pid=pid, status=os.waitstatus_to_exitcode(status)))
    return bool(done)


def _serve_further(listener: socket.socket, further: ZygoteRequest) -> None:
    log = os.open(further.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    serve(listener, further.preload)


def _call_this(name: str) -> None:
    """Gives this process a name, for those who list processes: its command is that of the first zygote."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(NAME, name.encode())


def _die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended in between
        os._exit(1)


def _become(work: Callable[[], None]) -> NoReturn:
    """What a forked process does from now on: this, and nothing of the zygote's."""
    try:
        work()
    except BaseException:  # noqa: BLE001  whatever it was, the zygote's loop must not go on in the child
        import traceback

        traceback.print_exc()
        sys.stderr.flush()  # os._exit does not
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
