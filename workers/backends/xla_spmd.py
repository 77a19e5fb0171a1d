"""XLA SPMD: one process, every rank a device, `mark_sharding` on every parameter and batch; the compiler does the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.case import Case
from workers import xla_flash, xla_scan, xla_side, xla_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from workers.operators import Operators
    from workers.session import Session

SIDE = "xla"
PRELOAD = xla_side.PRELOAD
environment = xla_side.environment


def unsupported(case: Case) -> str | None:
    """Every layout can be annotated; flash attention needs kernels that can run here."""
    return xla_flash.refusal(case)


def processes(_case: Case) -> int:
    """One: it drives all devices."""
    return 1


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Annotates parameters once, when they are placed, and every batch as it is fed."""
    with joined(case, xla_flash.operators) as session:
        yield session


@contextmanager
def joined(case: Case, kernels_of: "Callable[[xla_side.World], tuple[Operators, dict[str, str]]]") -> Iterator["Session"]:
    """A session with these operators, and what the environment says of them."""
    world = xla_side.join(case)
    operators, kernels = kernels_of(world)
    mark = xla_side.marker(world)

    def place(module: "nn.Module") -> "nn.Module":
        return _placed(module, world)

    with xla_side.session(world, place, lambda tensor: mark(tensor.to(world.device), case.layout.batch), operators) as session:
        scans = case.start.accumulation == "scan" and case.training.accumulation > 1
        accumulate = partial(xla_scan.accumulate, world) if scans else None
        yield replace(session, environment={**session.environment, **kernels}, accumulate=accumulate)


def _placed(module: "nn.Module", world: xla_side.World) -> "nn.Module":
    """The module on the devices, its parameters annotated as the case's start has it."""
    from torch import nn

    from workers.build import tie

    case, mark, send = world.case, xla_side.marker(world), xla_side.sender(world)
    annotated = {name: at for name, at in case.layout.parameters.items() if xla_start.annotates(case.start, at)}
    if case.start.marked == "before":
        for name, placements in annotated.items():
            path, _, own = name.rpartition(".")
            holder = module.get_submodule(path)
            holder.register_parameter(own, nn.Parameter(send(holder.get_parameter(own), placements)))
    module = module.to(world.device)
    tie(module, case.model)
    if case.start.marked == "after":
        for name, placements in annotated.items():
            mark(module.get_parameter(name), placements)
    return module
