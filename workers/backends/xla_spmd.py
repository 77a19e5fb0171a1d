"""XLA SPMD: one process, every rank a device, `mark_sharding` on every parameter and batch.

The compiler does the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Placements
from workers import sides
from workers.training import refusals, regions
from workers.xla import flash, legitimate, scan, sharding, spmd, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from workers.training.operators import Operators
    from workers.training.session import Session

TITLE = "XLA SPMD"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = replace(sides.TORCH_XLA, stands_for_side=True, cost_unit=True)
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment


def unsupported(case: Case) -> str | None:
    """Why no annotation says what the layout does, or the kernels of flash attention cannot run; or None."""
    return refusals.partial_sums(case) or flash.refusal(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Annotates parameters once, when they are placed, and every batch as it is fed."""
    yield with_kernels(case, flash.operators)


def with_kernels(
    case: Case, operators_of: "Callable[[sharding.World], tuple[Operators, dict[str, str]]]"
) -> "Session":
    """Joins with the operators that `operators_of(world)` gives.

    Its second result describes the kernels and goes into the run's environment.
    """
    world = sharding.join(case)
    operators, kernels = operators_of(world)
    scans = case.start.accumulation == "scan" and case.training.accumulation > 1
    further = legitimate.GRAPHS_OF_A_SCAN if scans else 0
    session = spmd.session(world, partial(_with_regions, world), operators=operators, further_graphs=further)
    return replace(
        session,
        environment={**session.environment, **kernels},
        accumulate=partial(scan.accumulate, world) if scans else None,
    )


def placed(world: sharding.World, module: "nn.Module") -> "nn.Module":
    """The module on the devices.

    Its parameters are annotated before or after the move, as the case's start says.
    """
    from workers.training.build import held
    from workers.training.build import replace as replace_tensor

    case = world.case
    annotated = {name: at for name, at in case.layout.parameters.items() if start.annotates(case.start, at)}
    if case.start.marked == "before":
        for name, placements in annotated.items():
            replace_tensor(module, name, world.send(held(module, name), placements))
    module = world.move(module)
    if case.start.marked == "after":
        for name, placements in annotated.items():
            world.mark(held(module, name), placements)
    return module


def _with_regions(world: sharding.World, module: "nn.Module") -> "nn.Module":
    """The module on the devices, which annotates what its layers give as the case's `regions` cut that."""
    case, module = world.case, placed(world, module)
    if case.cut_by.sequence:
        for _, inner in regions.between(module):
            inner.register_forward_hook(partial(_marked, world, regions.in_sequence(case)))
    if case.cut_by.loss != "whole":
        module.register_forward_hook(partial(_marked, world, regions.in_classes(case)))
    return module


def _marked(
    world: sharding.World, placements: Placements, _module: "nn.Module", _inputs: object, output: "Tensor"
) -> "Tensor":
    return world.mark(output, placements)
