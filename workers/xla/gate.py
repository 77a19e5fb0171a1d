"""The compile gate, without which replicas on XLA:CPU wait for each other until XLA aborts.

All ranks are threads of one process there, and a collective's rendezvous is keyed by the compiled module:
ranks that compile the same graph separately never meet. Behind the gate rank 0 compiles and the others find
its program in the cache. The gate stands wherever a graph is run: in `torch_xla.sync`, and after
`ProcessGroupXla.broadcast`, whose result `DistributedDataParallel` reads at once. The wrapper's check that
all ranks have the same shapes cannot pass a gate, as its graph depends on the rank, and is skipped: ours have
the same shapes. What is traced, and with which collectives, is left to torch and torch_xla.

Before the replicas start, the gate also creates the entries of the tokens that order collectives, for which
their threads would race otherwise (`known/first_collectives_race_on_xla.py`; one run in 400 failed
for this reason).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

from difftest.ground import installed

POLL_SECONDS = 0.0005

GATED_SINCE = (2, 9)
"""The first torch_xla with which the gate is known to work.

It does not work with 2.5.1: there every replica's run has its own id.
"""


def missing() -> str | None:
    """Why the installed torch_xla cannot be gated, or None.

    Where none is installed here, the one of the workers decides.
    """
    torch_xla = installed.version("torch_xla")
    if not torch_xla or tuple(int(part) for part in torch_xla.split(".")[:2]) >= GATED_SINCE:
        return None
    return "the replicas' compile gate is not known to hold in this older torch_xla"


def ordinal() -> int:
    """The rank of the replica whose thread this is."""
    from torch_xla import runtime

    rank: int = runtime.global_ordinal()
    return rank


@dataclass(slots=True, kw_only=True)
class Gate:
    """Lets rank 0 compile a graph and the others run it once that is done.

    The others do not wait until rank 0's `run` returns: it may first free a buffer that its own collective
    still holds. `compiled()` gives the number of graphs compiled and of graphs found in the cache, `cached()`
    the number of programs in the cache.
    """

    run: Callable[..., None]
    compiled: Callable[[], tuple[int, int]]
    cached: Callable[[], int]
    barrier: threading.Barrier
    returned: threading.Event = field(default_factory=threading.Event)

    def sync(self, *_: object, **__: object) -> None:
        """`torch_xla.sync` for one replica's thread.

        Runs what the thread has traced, and waits until every rank has run its graph.

        `RuntimeError` when a rank compiled another graph than rank 0: their collectives would wait for each
        other forever.
        """
        from torch_xla.core import xla_model

        self.barrier.wait()  # what ranks compile before, as for an operator on the host, is not this graph
        compiled, hits, cached = *self.compiled(), self.cached()
        self.barrier.wait()
        if ordinal() == 0:
            try:
                self.run()
            finally:
                self.returned.set()
        else:
            while not self.returned.is_set() and self.cached() == cached and self.compiled()[1] == hits:
                time.sleep(POLL_SECONDS)
            self.run()
        self.barrier.wait()
        if self.compiled()[0] > compiled + 1:
            msg = "a replica has traced another graph than rank 0, and their collectives will never meet"
            raise RuntimeError(msg)
        xla_model.wait_device_ops()
        self.returned.clear()
        self.barrier.wait()


def _run(sync: Callable[[], None]) -> None:
    """Runs what this thread has traced.

    The token that orders collectives keeps their graph alive, with buffers that a running collective holds.
    `sync` drops it last, with the interpreter locked, so that no other rank would reach the collective. Here
    it is dropped first, which changes no graph.
    """
    import torch_xla

    # What `sync` itself calls.
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)  # noqa: SLF001
    sync()


def _compiled() -> tuple[int, int]:
    """How many graphs this process has compiled, and how many it has found in the cache."""
    from torch_xla.debug import metrics

    return metrics.counter_value("UncachedCompile") or 0, metrics.counter_value("CachedCompile") or 0


@contextmanager
def gated(replicas: int) -> Iterator[threading.Barrier]:
    """Installs the gate; `NotImplementedError` where torch or torch_xla has no place for it."""
    barrier = threading.Barrier(replicas)
    with ExitStack() as stack:
        try:
            _create_token_entries()
            for place in _places(barrier):
                stack.enter_context(place)
        except AttributeError as error:
            msg = f"the replicas' compile gate cannot be installed: {error}"
            raise NotImplementedError(msg) from error
        yield barrier


def _create_token_entries() -> None:
    """Creates every device's entry among the tokens that order collectives, while there is only one thread.

    torch_xla keeps them in an `unordered_map` without a lock. Threads that create entries at the same time
    end in a segmentation fault, or with a graph that holds another rank's collective.
    """
    import torch_xla
    from torch_xla.core import xla_model

    for device in xla_model.get_xla_supported_devices():
        torch_xla._XLAC._set_all_reduce_token(device, None)  # noqa: SLF001  no public way to its entry


def _places(barrier: threading.Barrier) -> "Iterator[AbstractContextManager[object]]":
    """The patches by which the gate stands in torch and torch_xla.

    `AttributeError` where one of them has no such place.
    """
    import torch_xla
    from torch.nn.parallel import distributed
    from torch_xla.distributed.xla_backend import ProcessGroupXla

    cached = torch_xla._XLAC._xla_get_num_cached_compilation_graph  # noqa: SLF001  no public equivalent
    gate, broadcast = (
        Gate(run=partial(_run, torch_xla.sync), compiled=_compiled, cached=cached, barrier=barrier),
        ProcessGroupXla.broadcast,
    )

    def broadcast_and_sync(*arguments: object) -> object:
        work = broadcast(*arguments)
        gate.sync()
        return work

    yield patch.object(torch_xla, "sync", gate.sync)
    yield patch.object(ProcessGroupXla, "broadcast", broadcast_and_sync)
    yield patch.object(distributed, "_verify_param_shape_across_processes", lambda *_, **__: None)
