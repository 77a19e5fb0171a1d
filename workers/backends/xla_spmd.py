"""XLA SPMD: one process, every rank a device, `mark_sharding` on every parameter and batch; the compiler does the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from difftest.case import Case
from workers import xla_side

if TYPE_CHECKING:
    from torch import nn

    from workers.session import Session

SIDE = "xla"
PRELOAD = xla_side.PRELOAD
environment = xla_side.environment


def unsupported(_case: Case) -> str | None:
    """Every layout can be annotated."""
    return None


def processes(_case: Case) -> int:
    """One: it drives all devices."""
    return 1


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Annotates parameters once, when they are placed, and every batch as it is fed."""
    from workers.build import tie

    world = xla_side.join(case)
    mark = xla_side.marker(world)

    def place(module: "nn.Module") -> "nn.Module":
        module = module.to(world.device)
        tie(module, case.model)
        for name, parameter in module.named_parameters():
            mark(parameter, case.layout.parameters[name])
        return module

    with xla_side.session(world, place, lambda tensor: mark(tensor.to(world.device), case.layout.batch)) as joined:
        yield joined
