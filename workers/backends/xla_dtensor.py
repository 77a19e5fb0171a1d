"""DTensor on XLA as its documentation has it: `distribute_tensor` over an "xla" mesh.

Every parameter and every batch goes through it. The parameters are *replaced* by its results, as
`parallelize_module` and `distribute_module` do on every other device. With torch_xla 2.9.0 such a module
cannot run (pytorch/xla#8534, #9472). The service must find that, so nothing here works around it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import replicated
from workers import sides
from workers.training import redistribution
from workers.xla import sharding, spmd

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.session import Session

TITLE = "DTensor on XLA"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = sides.TORCH_XLA
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment


def unsupported(case: Case) -> str | None:
    """Why DTensors cannot express `case`, or None.

    Every layout can be written as placements; a collective cannot. Programs would add nothing to what every
    other model shows.
    """
    if case.model.is_program:
        return "no operator takes DTensors on XLA with torch_xla 2.9; the other paths show that"
    return redistribution.refusal(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Distributes parameters when they are placed and every batch as it is fed."""
    from torch import nn

    from workers.training.build import tie_again
    from workers.training.operators import Operators

    world = sharding.join(case)
    mesh = sharding.device_mesh(world)

    def place(module: "nn.Module") -> "nn.Module":
        module = world.move(module)
        for name, parameter in list(module.named_parameters()):
            path, _, own = name.rpartition(".")
            placements = case.layout.parameters.get(name, replicated(case.layout.mesh))
            tensor = sharding.distribute(parameter, mesh, placements)
            placed = nn.Parameter(tensor, requires_grad=parameter.requires_grad)
            module.get_submodule(path).register_parameter(own, placed)
        tie_again(module, case)
        return module

    def feed(tensor: "Tensor") -> "Tensor":
        return sharding.distribute(tensor, mesh, case.layout.batch)

    yield spmd.session(world, place, feed, Operators(move=redistribution.mover(mesh, case.forms)))
