"""Lazy tensors: their values are read once they are computed, and the graphs until then are counted.

Reading must not cut the graph that a user's program would compile: what is read before it has been computed
is only noted, and fetched when the step is synchronised.

torch_xla counts for the whole process, so that every case sets the counters to zero. Every graph that runs is
found in its cache or not; every call of `torch_xla.sync` counts as a step. A graph that runs without such a
call runs because somebody needs a value on the host. What an earlier case compiled is in the cache.
"""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from difftest.cases.layout import Placements
from difftest.judge.events import Events, HostOperator
from difftest.judge.outcome import Array, Sharded
from workers.training.pieces import sharded
from workers.xla import legitimate

if TYPE_CHECKING:
    from torch import Tensor


class _Fetches:
    """How many tensors the readers of this process have fetched, in all its threads."""

    def __init__(self) -> None:
        self._lock, self.count = threading.Lock(), 0

    def add(self) -> None:
        with self._lock:
            self.count += 1


_fetches = _Fetches()


def begin() -> None:
    """Sets the counters of this process to zero, for the case that begins."""
    from torch_xla.debug import metrics

    metrics.clear_all()
    _fetches.count = 0


class Counted(NamedTuple):
    """What this process has done since the case began.

    The graphs that it compiled and ran, its calls of `torch_xla.sync`, and the tensors that the program
    itself has sent to the host.
    """

    compiled: int
    executed: int
    requested: int
    fetched: int


def counted() -> Counted:
    """The counts now. While other threads read tensors, `fetched` may be too low."""
    from torch_xla.debug import metrics

    transfers, *_ = metrics.metric_data("TransferFromDeviceTime") or (0,)
    fetched = max(0, transfers - _fetches.count)
    names = ("UncachedCompile", "CachedCompile", "MarkStep")
    compiled, cached, requested = (metrics.counter_value(name) or 0 for name in names)
    return Counted(compiled, compiled + cached, requested, fetched)


@dataclass(slots=True, kw_only=True)
class TensorReader:
    """Reads the pieces of tensors, those of lazy tensors at the next `sync`.

    `fetch(tensor, placements)` gives the pieces of a computed tensor, in one transfer. `further_graphs` is
    how many graphs the program runs in a step without `torch_xla.sync`; None where that is not known.
    `further_tensors` is how many tensors the program may read on the host in the whole run, of all replicas.

    `look` is given what is noted before it is computed.

    `counts` are those at the end of each `sync`.
    """

    fetch: Callable[["Tensor", Placements], Mapping[int, Array]]
    further_graphs: int | None = 0
    further_tensors: int = 0
    look: Callable[[Sequence["Tensor"]], None] = lambda _tensors: None
    noted: list[tuple["Tensor", Placements, dict[int, Array]]] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)

    def read(self, tensor: "Tensor", placements: Placements, shape: tuple[int, ...] | None = None) -> Sharded:
        """The pieces by rank, of a tensor whose global shape is `shape`, by default its own."""
        import torch_xla

        pieces: dict[int, Array] = {}
        is_lazy = torch_xla._XLAC._check_tensor_need_materialization  # noqa: SLF001  no public equivalent
        if any(is_lazy([tensor])):
            self.noted.append((tensor.clone(), placements, pieces))
        else:
            pieces.update(self._fetched(tensor, placements))
        return sharded(tensor, placements, pieces, shape)

    def _fetched(self, tensor: "Tensor", placements: Placements) -> Mapping[int, Array]:
        _fetches.add()  # first: a transfer must never be counted before it is known to be a reader's
        return self.fetch(tensor, placements)

    def sync(self) -> None:
        """Compiles and runs what has been traced, waits for it, and fetches what was noted."""
        import torch_xla

        self.look([tensor for tensor, *_ in self.noted])
        torch_xla.sync(wait=True)
        self.counts.append(counted())
        for tensor, placements, pieces in self.noted:
            pieces.update(self._fetched(tensor, placements))
        self.noted.clear()

    def events(self, syncs_a_step: Callable[[int], int]) -> Events:
        """Graphs until the end of each step, operators that ran on the CPU, JAX's own backends.

        `syncs_a_step` gives the number of syncs of one step from that of all.
        """
        if self.noted:
            self.sync()
        syncs = syncs_a_step(len(self.counts))
        jax = sys.modules.get("jax._src.xla_bridge")
        counts = self.counts[syncs - 1 :: syncs] if syncs else []
        events = Events(
            graphs=tuple(count.compiled for count in counts),
            host_operators=_host_operators(),
            jax_backends=tuple(sorted(getattr(jax, "_backends", {}))),
        )
        return events if self.further_graphs is None else structs.replace(events, **self._steps(counts))

    def _steps(self, counts: list[Counted]) -> dict[str, tuple[int, ...]]:
        """The graphs that ran, and the tensors that left the device, by the end of each step."""
        further = self.further_graphs or 0
        fetched = (*(count.fetched for count in counts[:-1]), counted().fetched)
        return {
            "executed": tuple(count.executed for count in counts),
            "requested": tuple(count.requested + further * step for step, count in enumerate(counts, 1)),
            "fetched": tuple(max(0, tensors - self.further_tensors) for tensors in fetched),
        }


def _host_operators() -> dict[str, HostOperator]:
    """The operators that ran on the CPU for want of one for XLA, and why they may."""
    from torch_xla.debug import metrics

    return {
        name: HostOperator(metrics.counter_value(name) or 0, legitimate.OPERATORS.get(name, ""))
        for name in sorted(metrics.executed_fallback_ops())
    }


def recompute(block: "Callable[..., Tensor]", *inputs: Any) -> "Tensor":  # noqa: ANN401
    """`block(*inputs)`, computed again behind an optimization barrier.

    Without one XLA would recognise the same computation and keep its results.
    """
    from torch_xla.utils.checkpoint import checkpoint

    recomputed: Tensor = checkpoint(block, *inputs)
    return recomputed
