"""DTensor's `distribute_tensor` on XLA for its annotation alone.

The module keeps its plain parameters, which are sharded in place. `xla_dtensor` puts the result of the same
call in the parameter's place, `xla_tp` lets `parallelize_module` do it: what fails there works here. Over a
dim that two axes shard, torch_xla 2.9.0 annotates the last of them alone: the numbers are the same, and the
check of annotations reports it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import replicated
from workers import sides
from workers.training import refusals
from workers.xla import sharding, spmd

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.session import Session

TITLE = "DTensor annotation on XLA"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = replace(sides.TORCH_XLA, follows="xla_spmd")
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment


def unsupported(case: Case) -> str | None:
    """Why an annotation does not do, or None.

    A kernel needs its sharding as an argument, which `xla_spmd` gives.
    """
    if case.model.flash_attentions:
        return "an annotation does not reach into a Pallas kernel; xla_spmd names its partition_spec"
    return refusals.partial_sums(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Annotates parameters once, when they are placed, and every batch as it is fed."""
    from workers.training.build import held

    world = sharding.join(case)
    mesh = sharding.device_mesh(world)

    def place(module: "nn.Module") -> "nn.Module":
        module = world.move(module)
        for name in dict.fromkeys((*dict(module.named_parameters()), *case.layout.parameters)):
            placements = case.layout.parameters.get(name, replicated(case.layout.mesh))
            sharding.distribute(held(module, name), mesh, placements)
        return module

    def feed(tensor: "Tensor") -> "Tensor":
        moved = tensor.to(world.device)
        sharding.distribute(moved, mesh, case.layout.batch)
        return moved

    yield spmd.session(world, place, feed)
