"""What a run reports besides tensors: range of values, compiled graphs, PJRT clients, annotations, fallbacks.

The judge reads these fields, so a bundle from elsewhere is checked against their types before a check sees
them.
"""

from itertools import accumulate, pairwise, zip_longest
from typing import Annotated, TypeAlias

import msgspec

from difftest.judge.stage import Stage

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
"""A number of things, of a rank or of a step."""

SETTLED_STEP = 3
"""The first step, from 0, that finds all its graphs compiled."""


class Client(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A PJRT client that a process created.

    `library` is `torch_xla` or `jax`, `platform` the library's name for the device. `stage` and `step` say
    when it was created, `caller` by whom (`file:function`; empty where unknown). `guarded`: the environment
    told the TPU's runtime to skip its discovery. `process` is the first rank of the process; files from
    before it was recorded have 0.
    """

    library: str
    platform: str
    stage: Stage
    step: Count
    guarded: bool
    caller: str
    process: Count = 0


class Misplaced(msgspec.Struct, frozen=True, array_like=True):
    """A parameter annotated otherwise than the layout says: pieces of each dim, as held and as requested."""

    held: tuple[Count, ...]
    requested: tuple[Count, ...]


class Events(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run reports besides tensors. A backend fills in what applies to it.

    * `in_range` (oracle): whether every value stays well inside what the case's dtype can hold.
    * `greatest` (oracle): the largest finite magnitude that any operator produced under simulated rounding.
    * `native` (oracle): how far the run in the case's own dtype is from float64, in units of the simulated
      rounding noise.
    * `graphs` (XLA): how many graphs had been compiled by the end of each step, counted from the start of the
      run.
    * `clients`: the PJRT clients, in the order in which their processes created them.
    * `misplaced` (XLA): by parameter name, the annotations that differ from the layout.
    * `fallbacks` (XLA): the operators that ran on the CPU instead, by torch_xla's counter names.
    * `jax_backends` (XLA): the platforms that JAX holds clients of.
    """

    in_range: bool = True
    greatest: float = 0.0
    native: float = 0.0
    graphs: tuple[Count, ...] = ()
    clients: tuple[Client, ...] = ()
    misplaced: dict[str, Misplaced] = {}
    fallbacks: tuple[str, ...] = ()
    jax_backends: tuple[str, ...] = ()

    def merged(self, other: "Events") -> "Events":
        """The events of two processes of one run as one.

        Each process has its own runtime and its own counter of graphs. A step has as many new graphs as the
        process with the most, so that a process that compiles is noticed whatever the counters of the others
        are.
        """
        new = zip_longest(_increases(self.graphs), _increases(other.graphs), fillvalue=0)
        return self._merged(other, graphs=tuple(accumulate(max(pair) for pair in new)))

    def merged_with_thread(self, other: "Events") -> "Events":
        """The events of two threads of one process as one: they share the runtime and its counter of graphs.

        A thread may read the counter before another thread compiles the same step; the greater number is then
        the step's.
        """
        pairs = zip_longest(self.graphs, other.graphs, fillvalue=0)
        return self._merged(other, graphs=tuple(max(pair) for pair in pairs))

    def _merged(self, other: "Events", graphs: tuple[int, ...]) -> "Events":
        return Events(
            in_range=self.in_range and other.in_range,
            greatest=max(self.greatest, other.greatest),
            native=max(self.native, other.native),
            graphs=graphs,
            clients=_clients(self.clients, other.clients),
            misplaced={**self.misplaced, **other.misplaced, **self.misplaced},  # in this one's order first
            fallbacks=tuple(sorted({*self.fallbacks, *other.fallbacks})),
            jax_backends=tuple(sorted({*self.jax_backends, *other.jax_backends})),
        )


def _increases(counts: tuple[int, ...]) -> list[int]:
    """By how much a counter rose in each step; the first step's are those before it too."""
    return [after - before for before, after in pairwise((0, *counts))]


def _clients(one: tuple[Client, ...], other: tuple[Client, ...]) -> tuple[Client, ...]:
    """The clients of both; of two lists that threads of one process report, the longer is complete."""
    lists: dict[int, tuple[Client, ...]] = {}
    for clients in (one, other):
        for process in dict.fromkeys(client.process for client in clients):
            own = tuple(client for client in clients if client.process == process)
            lists[process] = max(lists.get(process, ()), own, key=len)
    return tuple(client for process in sorted(lists) for client in lists[process])
