"""What one forked rank does: join a backend, train, leave the result in the run's folder, and die.

Everything that can be known of a death is left behind as it happens: versions in `rankN.versions`, the stage in `rankN.stage`, standard
error (with the frames of a fatal signal, Python's by faulthandler and native ones, and those of a rank that was asked where it hangs) in
`rankN.err`.
"""

import dataclasses
import errno
import faulthandler
import os
import re
import resource
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from difftest import installed, plugins
from difftest.cases.case import Case
from difftest.judge.outcome import Failure, Stage, Symptom, Trace
from workers import faults
from workers.cards import ON_CARDS, PLATFORMS
from workers.clients import Clients
from workers.isolate import native, spool
from workers.training.train import train

STAGE_WIDTH = 16
MESSAGE_CHARACTERS = 4000
LOG_CHARACTERS = 2**16
"""What is kept of a failure's first line and of its traceback: a framework can put a whole tensor into a message."""

MACHINE_ERRORS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ENFILE,
    errno.EMFILE,
    errno.ENOMEM,
    errno.EAGAIN,
)
"""What the operating system says when the machine lacks something; no framework's fault."""

LOOPBACK = "lo"
THREADS, MKLDNN = "DIFFTEST_THREADS", "DIFFTEST_MKLDNN"
"""Legal variants of a run: the threads of an operator, and whether oneDNN's kernels are used."""

EXHAUSTED = re.compile(r"(?i:out of memory)|ALLOC_FAILED")
"""What torch, the driver, cuBLAS and XLA say where a GPU's memory is all taken."""

BROKEN = re.compile(
    r"ECC error|busy or unavailable|driver version is insufficient|no kernel image is available"
    r"|TPU is already in use|Device or resource busy|No space left on device"
)
"""What is said where a GPU is broken, another's alone, or not for this torch, where another process has the TPU, and where the disk or the
memory that NCCL's ranks share is full; no framework's fault."""

ASYNCHRONOUS = "CUDA error"
"""A kernel's failure shows at whatever call comes next: where that is says nothing of the fault."""

CAPABILITY_TYPES = (NotImplementedError,)
CAPABILITY_WORDS = (
    "does not have a sharding strategy registered",
    "Sharding propagation failed",
    "is not supported",
    "not implemented for",
    "not support",
    "does not have a deterministic implementation",
)


VERSIONS = installed.versions(*installed.COMPUTING) | {"torch": str(torch.__version__)}
"""Looked up once by what forks the ranks: it is what they run, whatever is installed in the meantime.

torch tells its own version, which says for which CUDA it was built; the package's does not.
"""


def main(request: Mapping[str, Any]) -> None:
    """Runs `request`: keys `case` (JSON), `backend`, `rank`, `folder`, `environment`; `rendezvous` and `local` if some are elsewhere.

    Exits with `MACHINE_STATUS` if the machine fails.
    """
    try:
        _run(request, Path(request["folder"]), int(request["rank"]))
    except OSError:  # not of the framework: those are results
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(spool.MACHINE_STATUS)
    sys.stderr.flush()


def _run(request: Mapping[str, Any], folder: Path, rank: int) -> None:
    if "rendezvous" not in request:
        _stay_here()
    os.environ.update(request["environment"] | request.get("local", {}))
    _redirect(folder / f"rank{rank}.err")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    spool.tell_versions(folder, rank, VERSIONS)
    torch.set_num_threads(int(os.environ.get(THREADS, "1")))
    torch.backends.mkldnn.enabled = os.environ.get(MKLDNN, "1") == "1"  # type: ignore[assignment]
    torch.set_flush_denormal(False)
    _remake_autograd()
    stages = _Stages(folder / f"rank{rank}.stage")
    spool.write(folder, rank, _attempt(request, rank, stages))


def _remake_autograd() -> None:
    """Lets a forked process make torch's autograd engine anew, while there is one thread.

    Else the first `backward` does, with the interpreter released and no lock (`PythonEngine::get_python_engine` in torch 2.9.0): of eight
    replicas' threads one in 300 runs destroyed the engine that another was starting, in `Engine::start_device_threads`.
    """
    torch.autograd._is_checkpoint_valid()  # noqa: SLF001  asks the engine, and starts no thread of it


def _stay_here() -> None:
    """All ranks of this run are on one machine: their transports listen on the loopback interface, unless the user names another."""
    if LOOPBACK in {name for _, name in socket.if_nameindex()}:
        for transport in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{transport}_SOCKET_IFNAME", LOOPBACK)


class _Stages:
    """Remembers the last stage begun, in memory and in a file that outlives the process."""

    def __init__(self, file: Path) -> None:
        self.last = (Stage.BUILD, 0)
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT)
        self(*self.last)

    def __call__(self, stage: Stage, step: int) -> None:
        self.last = (stage, step)
        os.pwrite(self._file, f"{stage} {step}".ljust(STAGE_WIDTH).encode(), 0)


def _attempt(request: Mapping[str, Any], rank: int, stages: _Stages) -> Trace | Failure:
    case = Case.from_json(request["case"])
    backend = plugins.load("workers.backends", request["backend"])
    rendezvous = request.get("rendezvous", f"file://{request['folder']}/rendezvous")
    clients = Clients(rank, lambda: stages.last)

    def report(stage: Stage, step: int) -> None:
        stages(stage, step)
        clients.look()

    try:
        with backend.session(case, rank, rendezvous) as session:
            spoiled = faults.spoil(session, case, rank, os.environ.get(faults.VARIABLE))
            trace: Trace = session.replay(lambda joined: train(case, joined, report), spoiled)
            events = msgspec.structs.replace(trace.events, clients=tuple(clients.created))
            return dataclasses.replace(trace, events=events)
    except Exception as error:  # any exception of the framework is a result here
        if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
            raise
        if EXHAUSTED.search(str(error)) and _others_hold_the_card():
            raise OSError(errno.ENOMEM, f"others hold the GPU's memory: {error}") from error
        if BROKEN.search(str(error)):
            raise OSError(errno.EIO, f"the machine cannot run this: {error}") from error
        return explain(error, *stages.last, rank)


def _others_hold_the_card() -> bool:
    """Whether most of the GPU's memory is other processes': what is taken, less what this one's torch or JAX keeps or has had.

    XLA asks for all that a program needs in one piece: a run that wants too much may never have had much.
    """
    on_jax = os.environ.get(PLATFORMS) == ON_CARDS
    if not on_jax and not torch.cuda.is_initialized():
        return False
    try:
        free, total = torch.cuda.mem_get_info()
        held = (
            sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"]
            if on_jax
            else torch.cuda.memory_reserved()
        )
    except (
        AssertionError,
        KeyError,
        RuntimeError,
        TypeError,
    ):  # no room for a context, or a torch that was built without CUDA: no telling
        return True
    return bool(total - free - held > total / 2)


def explain(error: Exception, stage: Stage, step: int, rank: int) -> Failure:
    """An exception as data: type, first line, and the innermost frame of the framework."""
    log = "".join(traceback.format_exception(error))[-LOG_CHARACTERS:]
    late = str(error).startswith(ASYNCHRONOUS)
    frame = "" if late else _frame(traceback.extract_tb(error.__traceback__))
    lines = str(error).strip().splitlines() or [""]
    capability = isinstance(error, CAPABILITY_TYPES) or (
        not late and any(words in str(error) for words in CAPABILITY_WORDS)
    )
    symptom = Symptom.CAPABILITY if capability else Symptom.EXCEPTION
    message = lines[0][:MESSAGE_CHARACTERS]
    return Failure(
        symptom=symptom,
        stage=stage,
        step=step,
        kind=type(error).__name__,
        message=message,
        frame=frame,
        log=log,
        rank=rank,
    )


def _frame(frames: traceback.StackSummary) -> str:
    """Where an error was raised, as `file:function`, the same on every machine.

    Nothing where our own code raised it, or called what has no frame: a fault's identity must not change with our names.
    """
    if not frames or Path(frames[-1].filename).is_relative_to(Path(__file__).parent):
        return ""
    return f"{frames[-1].filename.rpartition('site-packages/')[2]}:{frames[-1].name}"


def _redirect(file: Path) -> None:
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    faulthandler.enable(sys.stderr)
    faulthandler.register(spool.WHERE_SIGNAL, sys.stderr, all_threads=False)
    if handler := native.compiled():
        handler.watch()  # after faulthandler, which it hands the signal on to
