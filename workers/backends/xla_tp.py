"""Tensor parallelism on XLA: `parallelize_module` over the axis "tp" of an "xla" mesh.

This is what torch's tutorial does. The plan is the one that the same layout gives on the other side. Over
data axes the batch is annotated, which is all that SPMD needs. With torch_xla 2.9.0 `parallelize_module`
cannot run (pytorch/xla#8528, #8534). The service must find that, so nothing here works around it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Replicate
from workers import sides
from workers.training import tp_plan
from workers.training.refusals import for_modules_only, own_batches
from workers.xla import sharding, spmd

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = "parallelize_module on XLA"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = sides.TORCH_XLA
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why no plan of `parallelize_module` expresses the layout, or None."""
    data_axes = range(len(case.layout.mesh.axes) - 1)
    if any(
        placements[axis] != Replicate()
        for placements in case.layout.parameters.values()
        for axis in data_axes
    ):
        return (
            "parallelize_module shards parameters over tp only; the layout shards one over another axis too"
        )
    return tp_plan.refusal(case) or own_batches(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Parallelizes the module when it is placed and annotates every batch as it is fed."""
    from torch.distributed.tensor.parallel import parallelize_module

    from workers.training.build import tie_again

    world = sharding.join(case)
    mesh = sharding.device_mesh(world)

    def place(module: "nn.Module") -> "nn.Module":
        module = world.move(module)
        module = parallelize_module(module, mesh[case.layout.mesh.names[-1]], tp_plan.styles(case, module))
        tie_again(module, case)
        return module

    yield spmd.session(world, place)
