"""A world of devices under SPMD: its mesh, sharding annotations, and every rank's piece of a tensor.

Under SPMD one process speaks for all ranks: rank N is device N.

A piece comes from the shard on its own rank's device, so that copies which differ are visible. XLA cuts a dim
that several axes shard into `ceil(size / all their ranks)`, where DTensor nests its cuts; what the rank's own
shard lacks is then taken from the other devices' shards.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Placements, Shard, local_slices, replicated, ways
from difftest.judge.events import Misplaced
from difftest.judge.outcome import Array
from workers.training.pieces import dtensor_placements, shape_of, values
from workers.xla import devices, lazy, plugin, start

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh


Spec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]
"""For each tensor dim the mesh axis that shards it, several of them in mesh order, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The devices, arranged as the case's mesh.

    Where there are more devices than ranks (`spare` of them per rank), one more innermost axis holds copies:
    XLA's meshes span all devices. `mesh` is the mesh as torch_xla takes it. `kept` lives as long as the run,
    as a user's variables do.
    """

    case: Case
    device: Any
    mesh: Any
    kept: Any = None

    @property
    def spare(self) -> int:
        """The number of devices per rank."""
        return start.spare(self.case)

    def move(self, module: "nn.Module") -> "nn.Module":
        """The module on the devices."""
        from workers.training.build import moved

        return moved(module, self.device, self.case)

    def feed(self, tensor: "Tensor") -> "Tensor":
        """A host tensor of the whole batch on the devices, annotated as the layout cuts the batch."""
        return self.mark(tensor.to(self.device), self.case.layout.batch)

    def mark(self, tensor: "Tensor", placements: Placements) -> "Tensor":
        """Annotates a tensor on the devices with its sharding."""
        from torch_xla.distributed import spmd

        spmd.mark_sharding(tensor, self.mesh, self._spec(tensor, placements))
        return tensor

    def send(self, tensor: "Tensor", placements: Placements) -> "Tensor":
        """Moves a host tensor to the devices and cuts it on the way.

        `mark_sharding` refuses tensors on the host ("Expected XLA tensor"). This is what torch_xla's data
        loader does with batches, and the way to annotate a tensor before it is moved.
        """
        from torch_xla.core import xla_model
        from torch_xla.distributed import spmd

        spec = spmd.ShardingSpec(self.mesh, self._spec(tensor, placements))
        moved: list[Tensor] = xla_model.send_cpu_data_to_device(tensor.detach(), self.device, spec)
        return moved[0]

    def _spec(self, tensor: "Tensor", placements: Placements) -> "Spec":
        return partition_spec(tensor.dim(), placements, self.case.layout.mesh.names)


def join(case: Case) -> World:
    """Starts the runtime in SPMD mode by the case's acts.

    `ValueError` when the case's ranks do not divide the devices.
    """
    import torch_xla

    lazy.begin()
    if devices.kind() == plugin.DEVICE:
        plugin.register()
    left = {name: start.act(name, case) for name in case.start.acts}
    devices.multiply_precisely()
    return World(case=case, device=torch_xla.device(), mesh=left["mesh"], kept=left["device"])


def partition_spec(dims: int, placements: Placements, names: tuple[str, ...]) -> Spec:
    """The placements of a tensor of `dims` dims, as `mark_sharding` takes them."""
    axes = [
        tuple(n for n, p in zip(names, placements, strict=True) if p == Shard(dim)) for dim in range(dims)
    ]
    return tuple(held[0] if len(held) == 1 else held or None for held in axes)


def annotation(tensor: "Tensor") -> str:
    """The sharding of a tensor as XLA writes it; empty where it has none. Its values are not computed."""
    import torch_xla

    text: str = torch_xla._XLAC._get_xla_sharding_spec(tensor)  # noqa: SLF001  no public equivalent
    return text


def tiles(tensor: "Tensor") -> tuple[int, ...]:
    """The number of pieces into which a tensor's annotation cuts each dim; its values are not computed."""
    spec = re.match(r"\{devices=\[([\d,]+)\]", annotation(tensor))
    pieces = tuple(map(int, spec[1].split(","))) if spec else ()
    return (*pieces, *(1 for _ in range(tensor.dim())))[: tensor.dim()]


def misplaced(module: "nn.Module", case: Case) -> dict[str, Misplaced]:
    """The parameters and a program's buffers whose annotation differs from the layout, by name."""
    mesh, different = case.layout.mesh, {}
    for name, parameter in chain(module.named_parameters(), module.named_buffers()):
        placements = case.layout.parameters.get(name, replicated(mesh))
        requested = tuple(ways(dim, placements, mesh) for dim in range(parameter.dim()))
        if (
            prod(requested) > 1
            and (actual := tiles(getattr(parameter, "global_tensor", parameter))) != requested
        ):
            different[name] = Misplaced(actual, requested)
    return different


def device_mesh(world: World) -> "DeviceMesh":
    """The mesh as torch takes it."""
    from torch.distributed.device_mesh import init_device_mesh

    shape, names = start.axes(world.case)
    return init_device_mesh("xla", shape, mesh_dim_names=names)


def distribute(tensor: "Tensor", mesh: "DeviceMesh", placements: Placements) -> "Tensor":
    """`distribute_tensor` over the mesh's axes; over spare ones the tensor is replicated."""
    from torch.distributed.tensor import Replicate, distribute_tensor

    spare = [Replicate() for _ in range(mesh.ndim - len(placements))]
    return distribute_tensor(tensor, mesh, [*dtensor_placements(placements), *spare])


def pieces(world: World, tensor: "Tensor", placements: Placements) -> dict[int, Array]:
    """What each rank holds of a computed tensor, cut at `placements` whatever sharding the compiler chose.

    A tensor that has no sharding, such as a number that was sent to the devices, is whole everywhere.
    """
    from torch_xla.distributed.spmd import XLAShardedTensor

    mesh, spare = world.case.layout.mesh, world.spare
    shards: list[tuple[Any, int, Array]]
    if annotation(tensor):
        shards = [
            (
                tuple(s.indices) if s.indices is not ... else ...,
                s.replica_id,
                values(s.unpadded_data.detach()),
            )
            for s in XLAShardedTensor(tensor).local_shards
        ]
    else:
        shards = [(..., 0, values(tensor.detach().cpu()))] * mesh.world_size * spare
    return cut(shape_of(tensor), shards, placements, mesh, spare)


def cut(
    shape: tuple[int, ...],
    shards: Sequence[tuple[Any, int, Array]],
    placements: Placements,
    mesh: Mesh,
    spare: int = 1,
) -> dict[int, Array]:
    """Every rank's piece of a tensor of `shape`, from its own device's shard where that holds it.

    `shards` holds for each device, in their order, the slices of its shard, its replica id and its values.
    Every rank has `spare` devices. Where the tensor is not of the shape that torch_xla says, a rank's piece
    is what its device holds, which the check of shapes reports.
    """
    if any(_announced(shape, place) != array.shape for place, _, array in shards):
        return {rank: shards[rank * spare][2] for rank in range(mesh.world_size)}
    pieces = {}
    for rank in range(mesh.world_size):
        _, replica, own = shards[rank * spare]
        whole = np.zeros(shape, own.dtype)
        for place, _, array in sorted(shards, key=lambda shard: (shard[2] is own, shard[1] == replica)):
            whole[place] = array
        pieces[rank] = whole[local_slices(shape, placements, mesh, rank)].copy()
    return pieces


def _announced(shape: tuple[int, ...], place: Any) -> tuple[int, ...] | None:  # noqa: ANN401  slices or `...`
    """The shape of a shard by the shape of its tensor; None where the shard has more dims than that."""
    try:
        shard: Array = np.zeros(shape, bool)[place]
    except IndexError:
        return None
    return shard.shape
