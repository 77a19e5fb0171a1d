"""What one forked rank does: it joins a backend, trains, leaves its result in the case's folder, and exits.

A rank that has several cases does so with one after another, until one fails. What can be known of its end is
recorded as it happens (`workers.isolate.run_folder`). A fatal signal leaves Python's frames, by faulthandler,
and native ones in the rank's log; so does, with Python's frames alone, the signal that the parent sends to a
rank that hangs.
"""

import contextlib
import dataclasses
import faulthandler
import gc
import importlib
import os
import resource
import socket
import sys
import time
import traceback
from collections.abc import Container
from pathlib import Path

import msgspec
import torch

from difftest.cases.case import Case
from difftest.ground import installed, plugins
from difftest.ground.errors import UsageError
from difftest.judge.outcome import Origin, Outcome, Trace
from difftest.judge.stage import Stage
from workers import backends, exceptions, faults
from workers.isolate import native_frames, refused, run_folder
from workers.isolate.messages import RankRequest
from workers.isolate.run_folder import LastStages
from workers.pjrt_clients import Clients
from workers.torch import inferred_shapes, joining
from workers.torch.rendezvous import interface
from workers.training import arguments, rounding
from workers.training.spelling import host_backward
from workers.training.train import train
from workers.xla import devices

LOOPBACK = "lo"
THREADS, MKLDNN = "DIFFTEST_THREADS", "DIFFTEST_MKLDNN"
"""The environment variables of two legal variants of a run.

They set the threads of an operator, and whether oneDNN's kernels are used.
"""

VERSIONS = installed.versions(*installed.COMPUTING) | {"torch": str(torch.__version__)}
"""The versions of what the ranks run with.

The zygote looks them up once, so that a later installation does not change them. torch's own version replaces
the package's, because it says for which CUDA torch was built.
"""


USED_BY_MOST = {
    "workers.backends": ("oracle", "torch_ddp", "torch_dtensor", "torch_fsdp", "torch_fsdp1", "torch_tp"),
    "workers.own": ("loops",),
    "workers.torch": ("collectives", "flash", "flat", "learned_collectives", "rules"),
    "workers.training": ("parcels", "perturb_program", "reference_kernels", "refusals"),
    "workers.training.features": ("autocast",),
    "workers.training.layers": ("attention", "collective", "conv", "dropout", "flash_attention", "residual"),
}
"""What most ranks import when they need it, by package: 10 to 20 ms. It imports nothing foreign itself."""

USED_ON_XLA = {
    "workers.backends": (
        "xla_annotated",
        "xla_ddp",
        "xla_dtensor",
        "xla_fsdp",
        "xla_replica",
        "xla_spmd",
        "xla_tp",
    ),
    "workers.xla": ("collectives", "counters", "flash", "replicas", "scan", "spmd"),
}
"""The same where torch_xla is imported."""

ASKED_BY_MOST = ("workers.backends", "workers.training.layers", "workers.training.features")
"""The folders of plug-ins that most ranks look through."""


def warm(preload: Container[str]) -> None:
    """Does once, before ranks are forked, what each of them would do: a program itself takes less time.

    `preload` is what the ranks' backend imports. A user's packages may import torch_xla too, as diffusers
    does; what XLA needs is no part of such a rank, as its own backend is torch's.
    """
    on_xla = "torch_xla" in preload
    for package, modules in (*USED_BY_MOST.items(), *(USED_ON_XLA.items() if on_xla else ())):
        for module in modules:
            importlib.import_module(f"{package}.{module}")
    arguments.warm()
    rounding.classes()
    inferred_shapes.warm()
    for package in ASKED_BY_MOST:
        plugins.names(package)
    if on_xla:
        devices.warm()
    with contextlib.suppress(UsageError):
        Case.from_json("{}")  # msgspec looks through the types of all layers


def main(request: RankRequest) -> None:
    """Runs the cases of `request` and leaves the results in their folders.

    Exits with `MACHINE_STATUS` if the machine fails.
    """
    try:
        _run(request)
    except OSError:  # the machine's: a framework's error is a result
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(run_folder.MACHINE_STATUS)
    sys.stderr.flush()


def _run(request: RankRequest) -> None:
    rank, work, meeting = request.rank, request.work, request.meeting
    os.chdir(work.directory)
    _listen_on(interface(meeting.rendezvous) if meeting else LOOPBACK)
    os.environ.update({**work.environment, **(meeting.local if meeting else {})})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stages = LastStages(rank)
    clients = Clients(rank, lambda: stages.last)
    last = Path(work.folders[-1])
    for index, name in enumerate(work.folders):
        folder = Path(name)
        _redirect(run_folder.log_file(folder, rank))
        if not index:
            _leave_frames()
            _prepare()
        run_folder.write_versions(folder, rank, VERSIONS)
        stages.begin(folder)
        case = Case.from_json(work.cases[index])
        outcome, at = _attempt(request, case, index, stages, clients)
        run_folder.write(folder, rank, outcome, at)
        if folder == last or (clients.jax and "torch_xla" in sys.modules):
            if at is None:
                joining.leave()
            return  # JAX's client beside torch_xla's is an event of the case that made it
        if at is not None:
            if not refused.next_may_follow(outcome, case, folder):
                return
            joining.leave()
        gc.collect()  # a tensor that a cycle keeps would be part of the next case's graph


def _prepare() -> None:
    """What the numbers of a process depend on."""
    torch.set_num_threads(int(os.environ.get(THREADS, "1")))
    torch.backends.mkldnn.enabled = os.environ.get(MKLDNN, "1") == "1"  # type: ignore[assignment]
    torch.set_flush_denormal(False)
    _remake_autograd()


def _remake_autograd() -> None:
    """Makes torch create its autograd engine anew in the forked process, while there is one thread.

    Otherwise the first `backward` creates it, with the interpreter released and without a lock
    (`PythonEngine::get_python_engine` in torch 2.9.0): with eight replicas' threads, in one of 300 runs a
    thread destroyed the engine that another was starting, in `Engine::start_device_threads`.
    """
    torch.autograd._is_checkpoint_valid()  # noqa: SLF001  queries the engine, and starts no thread of it


def _listen_on(name: str | None) -> None:
    """Makes the transports listen on one interface, unless the user names another or there is none.

    It is the loopback interface for a run whose ranks are all on one machine.
    """
    if name in {there for _, there in socket.if_nameindex()}:
        for transport in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{transport}_SOCKET_IFNAME", name)


def _attempt(
    request: RankRequest, case: Case, index: int, stages: LastStages, clients: Clients
) -> tuple[Outcome, int | None]:
    """The outcome of one of the request's cases; the time of its failure, in ns since 1970, or None."""
    rank, work, meeting = request.rank, request.work, request.meeting
    origin = Origin(case=case.id, backend=work.backends[index], number=work.numbers[index])
    backend = backends.load(work.backends[index])
    rendezvous = meeting.rendezvous if meeting else f"file://{work.folders[index]}/rendezvous"

    def report(stage: Stage, step: int, operator: str = "") -> None:
        stages(stage, step, operator)
        clients.look()

    try:
        joining = backend.session(case, rank, rendezvous)  # it joins when it is entered
        if case.forms.host_backward:
            host_backward()
        with joining as session:
            spoiled = faults.spoil(session, case, rank, os.environ.get(faults.VARIABLE))
            trace: Trace = spoiled.replay(lambda joined: train(case, joined, report), spoiled)
            events = msgspec.structs.replace(trace.events, clients=tuple(clients.created))
            return dataclasses.replace(trace, events=events, origin=origin), None
    except Exception as error:  # noqa: BLE001  any exception of the framework is a result here
        at = time.time_ns()
        exceptions.raise_if_of_the_machine(error)
        failure = exceptions.explain(exceptions.without_package(error, backend.PRELOAD), *stages.last, rank)
        return dataclasses.replace(failure, operator=stages.operator, origin=origin), at


def _redirect(file: Path) -> None:
    """Sends standard output and standard error to `file`."""
    sys.stdout.flush()
    sys.stderr.flush()
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)


def _leave_frames() -> None:
    """Lets signals write frames to standard error."""
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    faulthandler.enable(sys.stderr)
    faulthandler.register(run_folder.FRAMES_SIGNAL, sys.stderr, all_threads=False)
    if handler := native_frames.compiled():
        handler.watch()  # after faulthandler, to which it passes the signal on
