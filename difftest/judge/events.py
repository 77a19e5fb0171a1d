"""What a run reports besides tensors: range of values, graphs, PJRT clients, annotations, where it worked.

The judge reads these fields, so a bundle from elsewhere is checked against their types before a check sees
them.
"""

from collections.abc import Callable
from itertools import accumulate, pairwise, zip_longest
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from difftest.judge.reached import Reached
from difftest.judge.stage import Stage

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
"""A number of things, of a rank or of a step."""

Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
"""The name of a device or of an operator, or a reason in one sentence."""

Counts: TypeAlias = tuple[Count, ...]
"""A counter's number at the end of each step."""

T = TypeVar("T")

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


class HostOperator(msgspec.Struct, frozen=True, array_like=True):
    """An operator that the framework ran on the host for want of one on the device: how often.

    `reason` says why that is legitimate; empty where it is not.
    """

    times: Count
    reason: Word = ""


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """What a program's result was beside its values: torch's name of its dtype, such as `int64`.

    `requires_grad` is read after the last operator has run. `alike`: all ranks say the same; otherwise the
    first rank's words are kept.
    """

    dtype: Word
    requires_grad: bool
    alike: bool = True


class Events(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run reports besides tensors. A backend fills in what applies to it.

    * `in_range` (oracle): whether every value stays well inside what the case's dtype can hold.
    * `greatest` (oracle): the largest finite magnitude that any operator produced under simulated rounding.
    * `native` (oracle): how far the run in the case's own dtype is from float64, in units of the simulated
      rounding noise.
    * `graphs` (XLA, `torch.compile`): how many graphs had been compiled by the end of each step,
      counted from the start of the run.
    * `breaks` (`torch.compile`): how often a graph was broken, by the reason; `graphs` are those captured.
    * `clients`: the PJRT clients, in the order in which their processes created them.
    * `misplaced` (XLA): by parameter name, the annotations that differ from the layout.
    * `misread` (DTensor): what torch's own `full_tensor` makes of tensors otherwise than their pieces say: by
      shape and placements, the greatest difference on any rank.
    * `reduced` (FSDP with mixed precision): how often parameters' gradients were added up over ranks, by
      torch's name of the dtype.
    * `jax_backends` (XLA): the platforms that JAX holds clients of.
    * `device`: the type of the device that the run's tensors belong on, as its framework calls it; empty
      where that was not recorded.
    * `elsewhere`: how often an operator of the forward gave a result on another device than that, by
      autograd's name of the operator and the device, as `MmBackward0 on cpu`.
    * `host_operators` (XLA): the operators for which torch_xla used the CPU, by its counters' names.
    * `executed`, `requested` (XLA): how many graphs had run by the end of each step, and how many of them the
      backend's own program runs. The others ran because a value was needed on the host.
    * `fetched` (XLA): how many tensors the program itself had sent to the host by the end of each step,
      beside those that the training loop reads.
    * `facts` (programs): dtype and `requires_grad` of every result, by its name in the trace, such as
      `0.output`. The oracle's are those of its run in the case's dtype; empty where they were not recorded.
    * `dtypes` (oracle, models of the user's): torch's name of the dtype of every output, by its name in the
      trace, in the run in the case's dtype.
    * `state` (models with buffers): torch's name of the dtype of every entry of the module's `state_dict`
      after the last step, by its key. The oracle's is that of its run in the case's dtype.
    * `reached`: the operators that the run dispatched. The oracle's are those of its run in the case's dtype.

    In a process whose replicas are threads, the counts of graphs and tensors are those of all of them.
    """

    in_range: bool = True
    greatest: float = 0.0
    native: float = 0.0
    graphs: Counts = ()
    breaks: dict[Word, Count] = {}
    clients: tuple[Client, ...] = ()
    misplaced: dict[str, Misplaced] = {}
    misread: dict[Word, float] = {}
    reduced: dict[Word, Count] = {}
    jax_backends: tuple[str, ...] = ()
    device: Word = ""
    elsewhere: dict[Word, Count] = {}
    host_operators: dict[Word, HostOperator] = {}
    executed: Counts = ()
    requested: Counts = ()
    fetched: Counts = ()
    facts: dict[Word, Fact] = {}
    dtypes: dict[Word, Word] = {}
    state: dict[Word, Word] = {}
    reached: Reached = Reached()

    def merged(self, other: "Events") -> "Events":
        """The events of two processes of one run as one.

        Each process has its own runtime and its own counters. A step has as many new graphs as the process
        with the most, so that a process that compiles is noticed whatever the counters of the others are.
        """
        return self._merged(other, _greatest_increases)

    def merged_with_thread(self, other: "Events") -> "Events":
        """The events of two threads of one process as one: they share the runtime and its counters.

        A thread may read a counter before another thread finishes the same step; the greater number is then
        the step's.
        """
        return self._merged(other, _greatest)

    def _merged(self, other: "Events", counts: Callable[[Counts, Counts], Counts]) -> "Events":
        return Events(
            in_range=self.in_range and other.in_range,
            greatest=max(self.greatest, other.greatest),
            native=max(self.native, other.native),
            graphs=counts(self.graphs, other.graphs),
            breaks=_most(self.breaks, other.breaks, int),
            clients=_clients(self.clients, other.clients),
            misplaced={**self.misplaced, **other.misplaced, **self.misplaced},  # in this one's order first
            misread=_most(self.misread, other.misread, float),
            reduced=_most(self.reduced, other.reduced, int),
            jax_backends=tuple(sorted({*self.jax_backends, *other.jax_backends})),
            device=self.device or other.device,
            elsewhere=_most(self.elsewhere, other.elsewhere, int),
            host_operators=_most(self.host_operators, other.host_operators, lambda operator: operator.times),
            executed=counts(self.executed, other.executed),
            requested=counts(self.requested, other.requested),
            fetched=counts(self.fetched, other.fetched),
            facts=_facts(self.facts, other.facts),
            dtypes={**other.dtypes, **self.dtypes},
            state={**other.state, **self.state},
            reached=self.reached.merged(other.reached),
        )


def _greatest(one: Counts, other: Counts) -> Counts:
    """The greater of two readings of one counter, step by step."""
    return tuple(max(pair) for pair in zip_longest(one, other, fillvalue=0))


def _greatest_increases(one: Counts, other: Counts) -> Counts:
    """A counter that rises in each step as much as the one of two that rises most."""
    rises = zip_longest(increases(one), increases(other), fillvalue=0)
    return tuple(accumulate(max(pair) for pair in rises))


def _most(one: dict[str, T], other: dict[str, T], size: Callable[[T], float]) -> dict[str, T]:
    """The entries of both by name, sorted; of two with one name the greater."""
    names = sorted({*one, *other})
    return {
        name: max((reading[name] for reading in (one, other) if name in reading), key=size) for name in names
    }


def _facts(one: dict[str, Fact], other: dict[str, Fact]) -> dict[str, Fact]:
    """The facts of both; of two that differ the first, marked as such."""
    parted = {
        name: msgspec.structs.replace(one[name], alike=False)
        for name, fact in other.items()
        if name in one and fact != one[name]
    }
    return {**other, **one, **parted}


def increases(counts: Counts) -> list[int]:
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
