"""XLA SPMD in which `torch_xla.compile` is around every step.

Forward, backward and update of all accumulation parts are one graph, and nothing may run before its end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import xla_spmd
from workers.training.refusals import for_modules_only, reading
from workers.xla import flash, sharding, spmd

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.training.session import Session

TITLE = "torch_xla.compile"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = replace(sides.TORCH_XLA, only_named=True)
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment

EMPTY_SYNCS = 2
"""Of three syncs a step two run nothing: `torch_xla.compile` begins with one, and our reader ends so."""


@for_modules_only
def unsupported(case: Case) -> str | None:
    """As under SPMD, whose annotations these are, and that the model reads no values."""
    return reading(case) or xla_spmd.unsupported(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Parts of a batch are accumulated in a loop, whatever the case's start says: a scan runs graphs."""
    world = sharding.join(case)
    operators, kernels = flash.operators(world)
    traced = spmd.session(
        world, partial(xla_spmd.placed, world), operators=operators, further_graphs=-EMPTY_SYNCS
    )
    yield replace(
        traced,
        environment={**traced.environment, **kernels},
        sync=lambda: None,
        around=partial(_one_graph, traced.sync),
        reads_values=False,  # a graph that runs for it ends the compiled function
    )


@contextmanager
def _one_graph(read: "Callable[[], None]") -> Iterator[None]:
    """Compiles and runs what is traced inside, then reads what was noted."""
    import torch_xla

    with torch_xla.compile(full_graph=True, name="step"):
        yield
    read()
