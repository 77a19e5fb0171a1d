"""Modules under `torch.compile`, and what TorchDynamo counts: graphs, and where it broke them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from difftest.cases.case import Case
from difftest.judge.events import Events
from workers.torch import devices, process_groups

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

Compile: TypeAlias = "Callable[[Case, nn.Module], nn.Module]"
"""From a case and its placed module to the compiled one."""

Sessions: TypeAlias = "Callable[..., AbstractContextManager[Session]]"
"""The `session` of a backend on torch's process groups."""

PRELOAD = (*process_groups.PRELOAD, "workers.torch.compiled_preload")

TRACED = "aot_eager"
"""The compiler of torch that runs the graphs of AOTAutograd as they are, in a quarter of Inductor's time."""

MOST_CHARACTERS = 200
"""Of the reason for a break, whose first line says what it is."""


def inner(module: "nn.Module") -> "nn.Module":
    """The module that was compiled; another one is returned as it is."""
    from torch._dynamo import OptimizedModule

    return module._orig_mod if isinstance(module, OptimizedModule) else module  # noqa: SLF001


def whole(_case: Case, module: "nn.Module", backend: str = "inductor") -> "nn.Module":
    """A placed module under `torch.compile`, by Inductor unless another compiler is named.

    `Module.compile` would skip a module of torch's own, such as a wrapper, without a word (torch 2.9).
    """
    import torch

    placed: nn.Module = torch.compile(module, backend=backend)  # type: ignore[assignment]
    return placed


traced: Compile = partial(whole, backend=TRACED)
"""A placed module under `torch.compile`, whose graphs AOTAutograd makes and Inductor does not compile."""


def sessions(eager: Sessions, compile_module: Compile = whole) -> Sessions:
    """The `session` of a backend that compiles what an eager one places; the loss stays outside."""

    @contextmanager
    def session(
        case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
    ) -> Iterator["Session"]:
        with eager(case, rank, rendezvous, kind) as joined:
            yield _around(joined, case, compile_module)

    return session


def _around(eager: "Session", case: Case, compile_module: Compile) -> "Session":
    """The session whose placed module is compiled."""
    graphs = Graphs(syncs_a_step=case.training.accumulation + 1)
    return replace(
        eager,
        place=lambda module: compile_module(case, eager.place(module)),
        quiet=lambda module, last: eager.quiet(inner(module), last),
        observe=lambda *_: nullcontext(),
        sync=graphs.sync,
        events=graphs.events,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """Counts the graphs that TorchDynamo captured, at every sync; a step has `syncs_a_step` of them."""

    syncs_a_step: int
    counts: list[int] = field(default_factory=list)

    def sync(self) -> None:
        """Counts what has been captured in this process."""
        from torch._dynamo.utils import counters

        self.counts.append(counters["stats"]["unique_graphs"])

    def events(self) -> Events:
        """The graphs until the end of each step, and the breaks; `RuntimeError` as `breaks`."""
        return Events(graphs=tuple(self.counts[self.syncs_a_step - 1 :: self.syncs_a_step]), breaks=breaks())


def breaks() -> dict[str, int]:
    """How often TorchDynamo broke a graph in this process, by the first line of its reason.

    `RuntimeError` if there was no graph: `torch.compile` skips what it cannot capture, and the run would be
    one of eager torch.
    """
    from torch._dynamo.utils import counters

    if not counters["stats"]["unique_graphs"]:
        msg = f"torch.compile captured no graph; breaks: {dict(counters['graph_break'])}"
        raise RuntimeError(msg)
    times: dict[str, int] = {}
    for reason, count in counters["graph_break"].items():
        line = str(reason).strip().partition("\n")[0][:MOST_CHARACTERS]
        times[line] = times.get(line, 0) + count
    return times
