"""`SpmdFullyShardedDataParallel`: torch_xla's FSDP under SPMD.

It shards each parameter's largest dim over a mesh axis named "fsdp". The wrapper knows the layout's last axis
by that name; an axis before it is the wrapper's `extra_data_axis`, over which the batch is cut too.

The other FSDP of torch_xla, `XlaFullyShardedDataParallel` over replicas, has no backend: its graph depends on
the rank, so that on the CPU, where replicas must share one compiled program, it waits for itself forever, and
on a TPU it has not been tried.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from difftest.cases.layout import Replicate, Shard
from workers import sides
from workers.training.refusals import for_modules_only, own_batches
from workers.xla import sharding, spmd

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = "SPMD FSDP on XLA"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = sides.TORCH_XLA
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment

AXIS = "fsdp"
MOST_AXES = 2


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why the layout is not the one that the wrapper gives to the parameters and the batch, or None."""
    if case.model.flash_attentions:
        return "the wrapper does not reach into a Pallas kernel; xla_spmd names its partition_spec"
    if case.world_size == 1:
        return None
    if len(case.layout.mesh.axes) > MOST_AXES or set(case.layout.batch) != {Shard(0)}:
        return (
            "SpmdFullyShardedDataParallel cuts the rows of the batch over all axes, one or two; "
            "the layout does not"
        )
    shapes = case.model.parameters()
    for name, shape in shapes.items():
        *before, last = case.layout.parameters[name]
        if any(placement != Replicate() for placement in before):
            return (
                "SpmdFullyShardedDataParallel shards over one axis; "
                "the layout shards a parameter over another"
            )
        if last != Shard(shape.index(max(shape))):
            return (
                "SpmdFullyShardedDataParallel shards every parameter along its largest dim; "
                "the layout places one differently"
            )
    return own_batches(case)


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Wraps the whole module, and annotates every batch as it is fed."""
    world = sharding.join(case)
    yield spmd.session(world, partial(_place, world))


def _place(world: sharding.World, module: "nn.Module") -> "nn.Module":
    from torch_xla.distributed.spmd import Mesh
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    module = world.move(module)
    ours: Any = world.mesh
    axes = world.case.layout.mesh.names
    renamed = tuple(AXIS if name == axes[-1] else name for name in ours.axis_names)
    mesh = Mesh(ours.device_ids, ours.mesh_shape, renamed)
    extra = axes[0] if len(axes) == MOST_AXES else None
    wrapped: nn.Module = SpmdFullyShardedDataParallel(module, mesh=mesh, extra_data_axis=extra)
    return wrapped
