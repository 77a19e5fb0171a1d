"""A warm process that forks ranks: it has imported the frameworks and touched no device.

Importing torch and torch_xla takes seconds, a fork of a process that has imported them a tenth of a second.
It is a program of its own (`python -m workers.zygote torch torch_xla`) rather than the forkserver of
`multiprocessing`, so that one parent can keep several, each under another interpreter with another torch, and
so that a child never imports the parent's main module again.

The zygote reads one JSON object per line, `{"run": ..., "rank": ...}`, answers `{"pid": N, "run": ...,
"rank": ...}` at once and `{"pid": N, "status": S}` when the child has ended (S as `os.waitstatus_to_exitcode`
gives it). At the end of its input it kills the processes it forked. When it is killed itself they die too,
because the kernel ends a child whose parent is gone.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from workers.isolate import environment_variables

POLL_SECONDS = 0.02
STANDARD_INPUT = 0
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in linux/prctl.h
READ_BYTES = 1 << 16

BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""With this variable torch asks NVML whether there are GPUs, and not CUDA.

Modules that torch_xla imports ask, and a CUDA that has been asked cannot be used in a forked process.
"""


def serve(preload: list[str]) -> None:
    """Forks on request until standard input closes."""
    replies = _take_stdout()
    preloaded(preload)
    from workers import child  # after the preload: it imports torch
    from workers.isolate import native_frames

    native_frames.compiled()
    child.warm()
    gc.freeze()  # the ranks need not look through what is imported, nor copy its pages
    _reply(replies, {"ready": True})
    children: set[int] = set()
    unread = b""
    while True:
        # no selector object: the ranks would inherit it
        if select.select([STANDARD_INPUT], [], [], POLL_SECONDS if children else None)[0]:
            # unbuffered: a line that waits in a buffer is not selected
            received = os.read(STANDARD_INPUT, READ_BYTES)
            if not received:
                break
            *lines, unread = (unread + received).split(b"\n")
            children.update(_start(json.loads(line), child.main, replies) for line in lines)
        _reap(children, replies)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def preloaded(names: Sequence[str]) -> None:
    """Imports the frameworks without initialising CUDA."""
    with environment_variables.set_to({BY_NVML: "1"}):
        for name in names:
            importlib.import_module(name)


def _take_stdout() -> int:
    """Keeps standard output for replies, so that nothing that a library prints gets among them."""
    replies = os.dup(1)
    os.dup2(2, 1)
    return replies


def _start(request: Mapping[str, Any], main: Any, replies: int) -> int:  # noqa: ANN401  never returns
    parent, pid = os.getpid(), os.fork()
    if not pid:
        _die_with(parent)
        _become_child(request, main, replies)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)  # in the parent too, so that a kill right after finds the group
    _reply(replies, {"pid": pid, "run": request["run"], "rank": request["rank"]})
    return pid


def _die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended in between
        os._exit(1)


def _become_child(request: Mapping[str, Any], main: Any, replies: int) -> NoReturn:  # noqa: ANN401
    try:
        os.close(replies)
        _read_nothing()
        os.setpgid(0, 0)
        main(request)
    except BaseException:  # noqa: BLE001  whatever it was, the zygote's loop must not go on in the child
        import traceback

        traceback.print_exc()
        sys.stderr.flush()  # os._exit does not
        os._exit(1)
    os._exit(0)


def _read_nothing() -> None:
    """Gives this process an empty standard input: a rank that reads must not take the zygote's requests."""
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, STANDARD_INPUT)
    os.close(empty)


def _reap(children: set[int], replies: int) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            children.discard(pid)
            _reply(replies, {"pid": pid, "status": os.waitstatus_to_exitcode(status)})


def _reply(replies: int, message: Mapping[str, Any]) -> None:
    os.write(replies, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    serve(sys.argv[1:])
