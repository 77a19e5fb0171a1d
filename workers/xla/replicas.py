"""Replicas on XLA: every rank is a device with its own copy of the model and its own graph.

`torch_xla.launch` does the same. On a TPU a rank is a process; on the CPU all ranks are threads of one
process, behind a gate (`workers.xla.gate`). A session of replicas speaks for the rank whose thread calls it,
so the training loop runs unchanged, once in every thread.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.layout import Placements, Shard
from difftest.judge.events import Events
from difftest.judge.outcome import Array, Sharded, Trace
from difftest.judge.stage import Stage
from workers.torch import process_groups
from workers.training.pieces import global_shape, own_rows, rows_by_rank, values
from workers.training.refusals import mixed_rows, reading, stages
from workers.xla import devices, gate, lazy, pinning, plugin

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from workers.training.session import Session


OF_TORCH = ("local_steps", "uneven_inputs")
"""Features of torch for which torch_xla has nothing."""


def unsupported(case: Case) -> str | None:
    """Why replicas cannot have the layout, or would have different graphs; or None."""
    if any(isinstance(p, Shard) for placements in case.layout.parameters.values() for p in placements):
        return "replicas keep every parameter whole; the layout shards one"
    if not process_groups.cuts_rows_only(case):
        return "replicas take whole rows; the layout cuts the batch along the sequence"
    if len(set(rows_by_rank(case))) > 1:
        return "every replica must trace the same graph; the ranks do not share the rows evenly"
    if case.model.flash_attentions:
        return "replicas have no kernel of their own for flash attention"
    if of := [name for name in OF_TORCH if has(case, name)]:
        return f"the feature {of[0]} is for modules on a CPU or on CUDA"
    return mixed_rows(case) or stages(case) or _machine(case) or _reads(case)


def _reads(case: Case) -> str | None:
    """Why replicas that are threads of one process, and share every graph, cannot run the case, or None."""
    return reading(case) if processes(case) == 1 else None


def _machine(case: Case) -> str | None:
    """Why this machine's devices cannot be replicas of `case`, or None."""
    if (kind := fitting(case)) == plugin.DEVICE:
        return f"replicas on {kind} need a process per GPU, and the plugin is registered for one process only"
    return gate.missing() if kind == "CPU" else None


def fitting(case: Case) -> str:
    """The PJRT device of a case: `devices.kind()`, but the CPU where TPU chips and ranks differ in number.

    torch_xla distributes the processes over every chip of the machine, and each waits for all the others.
    """
    kind = devices.kind()
    return "CPU" if kind == "TPU" and devices.chips() not in (0, case.world_size) else kind


def processes(case: Case) -> int:
    """One on the CPU, whose devices are all in one process; one per rank elsewhere."""
    return 1 if fitting(case) == "CPU" else case.world_size


def environment(case: Case) -> dict[str, str]:
    """The variables of a run: the device kind, and what the CPU needs.

    On the CPU these are one virtual device per rank, a synchronous client, and a rendezvous of the process
    group on any free port. An asynchronous client runs the replicas' programs on a few threads of its own:
    with more replicas than cores one in four runs ended with a rank's program waiting for the thread that
    another rank's collective had blocked.
    """
    there = devices.environment(case, fitting(case))
    return (
        {**there, "PJRT_CPU_ASYNC_CLIENT": "false", "MASTER_PORT": "0"}
        if there["PJRT_DEVICE"] == "CPU"
        else there
    )


@dataclass(slots=True, kw_only=True)
class Replica:
    """What one rank holds: its device, and what reads the values of its lazy tensors."""

    case: Case
    rank: int
    device: Any
    reader: lazy.TensorReader

    def move(self, module: "nn.Module") -> "nn.Module":
        """The module on this replica's device."""
        from workers.training.build import moved

        return moved(module, self.device, self.case)

    def feed(self, tensor: "Tensor") -> "Tensor":
        """The rows of a host tensor that are this rank's, on its device."""
        return own_rows(self.case, self.rank, tensor).to(self.device, copy=True)

    def read(self, tensor: "Tensor", placements: Placements) -> Sharded:
        """The piece of this rank."""
        return self.reader.read(tensor, placements, global_shape(self.case, tensor, placements))

    def total(self, loss: "Tensor") -> "Tensor":
        """The sum over the shares of the batch; axes along which the batch is replicated do not count."""
        from torch_xla.core import xla_model

        layout, groups = self.case.layout, dict[tuple[int, ...], list[int]]()
        for rank in range(self.case.world_size):
            pairs = zip(layout.mesh.names, layout.mesh.coordinate(rank), strict=True)
            groups.setdefault(tuple(at for name, at in pairs if name not in layout.batch_axes), []).append(
                rank
            )
        summed: Tensor = xla_model.all_reduce(
            xla_model.REDUCE_SUM,
            loss.clone(),
            groups=list(groups.values()),
            pin_layout=pinning.pinned(self.case),
        )
        return summed

    def sync(self) -> None:
        """Runs what has been traced, with the other ranks, and fetches what was noted."""
        self.reader.sync()

    def events(self) -> Events:
        """What `lazy.TensorReader` counts; each accumulation part and the update end in a sync."""
        return self.reader.events(lambda _syncs: self.case.training.accumulation + 1)


def _values(tensor: "Tensor") -> Array:
    import torch

    with torch.no_grad():
        # Without `detach()`: it makes a new view, where what the optimizer holds may be out of date.
        return values(tensor.cpu()).copy()


Place = Callable[[Replica, "nn.Module"], "nn.Module"]
Quiet = Callable[["nn.Module", bool], AbstractContextManager[None]]
After = Callable[[Stage, int, "nn.Module", "torch.optim.Optimizer"], None]

_here = threading.local()


def here() -> Replica:
    """The replica whose thread this is."""
    replica: Replica = _here.replica
    return replica


@contextmanager
def session(
    case: Case,
    rank: int,
    place: Place,
    quiet: Quiet = lambda _module, _last: nullcontext(),
    after: After = lambda *_: None,
) -> Iterator["Session"]:
    """A session in which every replica's thread speaks for its own rank.

    `replay` runs the loop in each thread and merges the traces.
    """
    from workers.training.operators import Operators
    from workers.training.session import Session
    from workers.xla import collectives

    devices.multiply_precisely()  # for all threads, and before the environment is described
    yield Session(
        dtype=process_groups.dtype_of(case),
        place=lambda module: place(here(), module),
        feed=lambda tensor: here().feed(tensor),
        read=lambda tensor, placements: here().read(tensor, placements),
        device="xla",
        scale=float(case.layout.data_ranks),
        total=lambda loss: here().total(loss),
        apart=case.layout.data_ranks > 1,
        sync=lambda: here().sync(),
        quiet=quiet,
        after=after,
        replay=partial(_replay, case, rank),
        operators=Operators(collect=collectives.collect(case, lambda: here().rank), recompute=lazy.recompute),
        environment={**devices.describe(), "transport": "xla"},
        events=lambda: here().events(),
        reads_values=processes(case) > 1,  # a graph that runs for it does not go through the gate
    )


def _replay(case: Case, process: int, train: "Callable[[Session], Trace]", joined: "Session") -> Trace:
    """Runs the loop once a replica of this process, at the same time, as `torch_xla.launch` does."""
    from torch_xla._internal import pjrt

    lazy.begin()  # programs share processes
    with gate.gated(case.world_size) if processes(case) == 1 else nullcontext() as barrier:
        failures: list[Exception] = []
        replica = partial(_attempt, case, barrier, failures, lambda: train(joined))
        launch = pjrt._run_thread_per_device  # noqa: SLF001  `torch_xla.launch` would spawn processes
        traces = launch(process, processes(case), replica, pjrt.initialize_multiprocess)
        if failures:
            raise failures[0]
        runs: list[Trace] = list(traces.values())
        events = reduce(Events.merged_with_thread, (run.events for run in runs))
        return dataclasses.replace(reduce(Trace.merged, runs), events=events)


def _attempt(
    case: Case, barrier: threading.Barrier | None, failures: list[Exception], train: Callable[[], Trace]
) -> Trace | None:
    """One replica's run, in its own thread; the first that fails releases the others from the gate."""
    try:
        _here.replica = _join(case)
        return train()
    except Exception as error:  # noqa: BLE001  raised again by the main thread, whatever it is
        failures.append(error)
        if barrier is not None:
            barrier.abort()
        return None


def _join(case: Case) -> Replica:
    """The replica of this thread. `ValueError` when the devices are not as many as the case's ranks."""
    import torch
    import torch_xla
    from torch_xla import runtime

    actual = runtime.world_size()
    if actual != case.world_size:
        ranks = f"the mesh {case.layout.mesh} has {case.world_size} ranks"
        msg = f"{ranks}; replicas need as many devices, and there are {actual}"
        raise ValueError(msg)
    # A backward's collectives are then called by the replica's own thread.
    torch.autograd.set_multithreading_enabled(False)
    rank = gate.ordinal()
    reader = lazy.TensorReader(
        fetch=lambda tensor, _placements: {rank: _values(tensor)},
        # Without the gate, `DistributedDataParallel` runs graphs of its own when it reads what it broadcast.
        further_graphs=0 if processes(case) == 1 else None,
    )
    return Replica(case=case, rank=rank, device=torch_xla.device(), reader=reader)
