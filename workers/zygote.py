"""A warm process that forks ranks: it has imported the frameworks and touched no device.

Importing torch and torch_xla takes seconds, a fork of a process that has done so a tenth of one. It is a program of its own
(`python -m workers.zygote torch torch_xla`) rather than `multiprocessing`'s forkserver, so that one parent can keep several,
each under another interpreter with another torch, and so that a child never re-imports the parent's main module.

It reads one JSON object a line, `{"run": ..., "rank": ...}`, answers `{"pid": N, "run": ..., "rank": ...}` at once and
`{"pid": N, "status": S}` when the child has ended (S as `os.waitstatus_to_exitcode` gives it). At end of input it kills what it forked;
killed itself, it takes them along, for the kernel ends a child whose parent is gone.
"""

import contextlib
import ctypes
import importlib
import json
import os
import selectors
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
"""With it torch asks NVML whether there are GPUs. What torch_xla imports asks, and CUDA, once asked, is of no use to a fork."""


def serve(preload: list[str]) -> None:
    """Forks on request until standard input closes."""
    replies = _take_stdout()
    preloaded(preload)
    from workers import child
    from workers.isolate import native  # after the preload: it imports torch

    native.compiled()
    _say(replies, {"ready": True})
    children: set[int] = set()
    unread = b""
    with selectors.DefaultSelector() as selector:
        selector.register(STANDARD_INPUT, selectors.EVENT_READ)
        while True:
            if selector.select(POLL_SECONDS if children else None):
                received = os.read(
                    STANDARD_INPUT, READ_BYTES
                )  # unbuffered: a line that waits in a buffer wakes no selector
                if not received:
                    break
                *lines, unread = (unread + received).split(b"\n")
                children.update(_start(json.loads(line), child.main, replies) for line in lines)
            _reap(children, replies)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def preloaded(names: Sequence[str]) -> None:
    """Imports the frameworks, and keeps CUDA as it is."""
    with environment_variables.set_to({BY_NVML: "1"}):
        for name in names:
            importlib.import_module(name)


def _take_stdout() -> int:
    """Keeps standard output for replies: what a library prints must not end up among them."""
    replies = os.dup(1)
    os.dup2(2, 1)
    return replies


def _start(request: Mapping[str, Any], main: Any, replies: int) -> int:  # noqa: ANN401  a function that never returns
    parent, pid = os.getpid(), os.fork()
    if not pid:
        _die_with(parent)
        _become_child(request, main, replies)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)  # in the parent too: a kill right after must find the group
    _say(replies, {"pid": pid, "run": request["run"], "rank": request["rank"]})
    return pid


def _die_with(parent: int) -> None:
    """The kernel kills this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)


def _become_child(request: Mapping[str, Any], main: Any, replies: int) -> NoReturn:  # noqa: ANN401
    try:
        os.close(replies)
        os.setpgid(0, 0)
        main(request)
    except BaseException:  # noqa: BLE001  whatever it was, the zygote's loop must not go on in the child
        import traceback

        traceback.print_exc()
        sys.stderr.flush()  # the end that follows leaves buffers behind
        os._exit(1)
    os._exit(0)


def _reap(children: set[int], replies: int) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            children.discard(pid)
            _say(replies, {"pid": pid, "status": os.waitstatus_to_exitcode(status)})


def _say(replies: int, message: Mapping[str, Any]) -> None:
    os.write(replies, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    serve(sys.argv[1:])
