"""What SPMD backends of torch_xla share: one process, and a session that speaks for all ranks.

A backend joins (`sharding.join`), says how it places the module and feeds a batch, and yields `session(world,
place, feed)`.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from difftest.cases.case import Case
from workers.xla import devices, lazy, sharding
from workers.xla.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from difftest.judge.events import Misplaced
    from workers.training.operators import Operators
    from workers.training.session import Session

PRELOAD = devices.PRELOAD
environment = devices.environment


def processes(_case: Case) -> int:
    """One: it drives all devices."""
    return 1


def session(
    world: sharding.World,
    place: "Callable[[nn.Module], nn.Module]",
    feed: "Callable[[Tensor], Tensor] | None" = None,
    operators: "Operators | None" = None,
    further_graphs: int | None = 0,
) -> "Session":
    """A session over all ranks. Batches are fed whole, so that losses and gradients are global already.

    `feed` is by default `world.feed`, which annotates the batch. `further_graphs` is how many graphs the
    program runs in a step without `torch_xla.sync`, None where that is not known. The session's events name
    the parameters that `place` left with another annotation than the layout's.
    """
    import torch

    from workers.training.operators import Operators
    from workers.training.session import Session

    fetch = partial(sharding.pieces, world)
    counters = Counters(by_layer=world.case.model.is_program)
    reader = lazy.TensorReader(fetch=fetch, further_graphs=further_graphs, look=counters.look)
    misplaced: dict[str, Misplaced] = {}
    steps = world.case.training.steps

    def placed(module: "nn.Module") -> "nn.Module":
        module = place(module)
        misplaced.update(sharding.misplaced(module, world.case))
        return module

    return Session(
        dtype=getattr(torch, world.case.dtype),
        place=placed,
        feed=feed or world.feed,
        read=lambda tensor, placements: reader.read(getattr(tensor, "global_tensor", tensor), placements),
        device="xla",
        sync=reader.sync,
        operators=replace(operators or Operators(), recompute=lazy.recompute),
        environment=devices.describe(),
        observe=counters.observe,
        events=lambda: structs.replace(
            reader.events(lambda syncs: syncs // steps), misplaced=misplaced, reached=counters.reached()
        ),
    )
