"""XLA SPMD: one process, every rank a device, `mark_sharding` on every parameter and batch; the compiler does the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers.xla import devices, flash, scan, sharding, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from workers.training.operators import Operators
    from workers.training.session import Session

SIDE = "xla"
FRAMEWORK = "torch_xla"
PRELOAD = devices.PRELOAD
environment = devices.environment


def unsupported(case: Case) -> str | None:
    """Every layout can be annotated; flash attention needs kernels that can run here."""
    return flash.refusal(case)


def processes(_case: Case) -> int:
    """One: it drives all devices."""
    return 1


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Annotates parameters once, when they are placed, and every batch as it is fed."""
    with joined(case, flash.operators) as session:
        yield session


@contextmanager
def joined(
    case: Case, kernels_of: "Callable[[sharding.World], tuple[Operators, dict[str, str]]]"
) -> Iterator["Session"]:
    """A session with these operators, and what the environment says of them."""
    world = sharding.join(case)
    operators, kernels = kernels_of(world)
    mark = sharding.marker(world)

    def place(module: "nn.Module") -> "nn.Module":
        return _placed(module, world)

    with sharding.session(
        world, place, lambda tensor: mark(tensor.to(world.device), case.layout.batch), operators
    ) as session:
        scans = case.start.accumulation == "scan" and case.training.accumulation > 1
        accumulate = partial(scan.accumulate, world) if scans else None
        yield replace(session, environment={**session.environment, **kernels}, accumulate=accumulate)


def _placed(module: "nn.Module", world: sharding.World) -> "nn.Module":
    """The module on the devices, its parameters annotated as the case's start has it."""
    from torch import nn

    from workers.training.build import tie

    case, mark, send = world.case, sharding.marker(world), sharding.sender(world)
    annotated = {name: at for name, at in case.layout.parameters.items() if start.annotates(case.start, at)}
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
