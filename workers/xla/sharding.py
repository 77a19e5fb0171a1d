"""A world of devices under SPMD: its mesh, sharding annotations, and reading every rank's piece back.

Under SPMD one process speaks for all ranks: rank N is device N. Tensors are lazy, so what is read before it has been computed is
only noted, and fetched when the step is synchronised: reading must not cut the graph that a user's program would compile.

A piece comes from the shard on its own rank's device, so copies that part from each other show. XLA cuts a dim that several axes shard
into `ceil(size / all their ranks)`, where DTensor nests its cuts; what the rank's own shard lacks is then taken from the other devices'.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Placements, Shard, local_slices, replicated, ways
from difftest.judge.events import Events, Misplaced
from difftest.judge.outcome import Array, Sharded
from workers.xla import devices, plugin, start

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh

    from workers.training.operators import Operators
    from workers.training.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The devices, arranged as the case's mesh.

    Where there are more devices than ranks (`spare` of them a rank), a further innermost axis holds copies: XLA's meshes span all devices.
    `mesh` is the mesh as torch_xla takes it. `kept` lives as long as the run, as a user's variables do.
    """

    case: Case
    device: Any
    mesh: Any
    kept: Any = None

    @property
    def spare(self) -> int:
        """How many devices there are a rank."""
        return start.spare(self.case)


def join(case: Case) -> World:
    """Starts the runtime in SPMD mode by the case's acts. `ValueError` when the case's ranks do not fit the devices."""
    import torch_xla

    if devices.kind() == plugin.DEVICE:
        plugin.register()
    left = {name: start.act(name, case) for name in case.start.acts}
    devices.multiply_precisely()
    return World(case=case, device=torch_xla.device(), mesh=left["mesh"], kept=left["device"])


def partition_spec(
    dims: int, placements: Placements, names: tuple[str, ...]
) -> tuple[str | tuple[str, ...] | None, ...]:
    """For each tensor dim the mesh axis that shards it, several of them in mesh order, or None."""
    axes = [
        tuple(n for n, p in zip(names, placements, strict=True) if p == Shard(dim)) for dim in range(dims)
    ]
    return tuple(held[0] if len(held) == 1 else held or None for held in axes)


def marker(world: World) -> Callable[["Tensor", Placements], "Tensor"]:
    """A function that annotates a tensor on the device with its sharding."""
    from torch_xla.distributed import spmd

    mesh, names = world.mesh, world.case.layout.mesh.names

    def mark(tensor: "Tensor", placements: Placements) -> "Tensor":
        spmd.mark_sharding(tensor, mesh, partition_spec(tensor.dim(), placements, names))
        return tensor

    return mark


def sender(world: World) -> Callable[["Tensor", Placements], "Tensor"]:
    """A function that moves a host tensor to the devices and cuts it on the way.

    `mark_sharding` refuses tensors on the host ("Expected XLA tensor"): this, which torch_xla's data loader does with batches, is how a
    tensor is annotated before it is moved.
    """
    from torch_xla.core import xla_model
    from torch_xla.distributed import spmd

    def send(tensor: "Tensor", placements: Placements) -> "Tensor":
        spec = spmd.ShardingSpec(
            world.mesh, partition_spec(tensor.dim(), placements, world.case.layout.mesh.names)
        )
        moved: list[Tensor] = xla_model.send_cpu_data_to_device(tensor.detach(), world.device, spec)
        return moved[0]

    return send


def tiles(tensor: "Tensor") -> tuple[int, ...]:
    """Into how many pieces every dim of a tensor on the devices is annotated to be cut; asks for no value."""
    import torch_xla

    spec = re.match(r"\{devices=\[([\d,]+)\]", torch_xla._XLAC._get_xla_sharding_spec(tensor))  # noqa: SLF001  no public way to ask
    told = tuple(map(int, spec[1].split(","))) if spec else ()
    return (*told, *(1 for _ in range(tensor.dim())))[: tensor.dim()]


def misplaced(module: "nn.Module", case: Case) -> dict[str, Misplaced]:
    """By name the parameters annotated otherwise than the layout shards them: the pieces of every dim as they are, and as asked."""
    mesh, found = case.layout.mesh, {}
    for name, parameter in module.named_parameters():
        placements = case.layout.parameters.get(name, replicated(mesh))
        asked = tuple(ways(dim, placements, mesh) for dim in range(parameter.dim()))
        if prod(asked) > 1 and (held := tiles(getattr(parameter, "global_tensor", parameter))) != asked:
            found[name] = Misplaced(held, asked)
    return found


def device_mesh(world: World) -> "DeviceMesh":
    """The mesh as torch takes it."""
    from torch.distributed.device_mesh import init_device_mesh

    shape, names = start.axes(world.case)
    return init_device_mesh("xla", shape, mesh_dim_names=names)


def distribute(tensor: "Tensor", mesh: "DeviceMesh", placements: Placements) -> "Tensor":
    """`distribute_tensor` over the mesh's axes; over spare ones the tensor is replicated."""
    from torch.distributed.tensor import Replicate as Whole
    from torch.distributed.tensor import Shard as Cut
    from torch.distributed.tensor import distribute_tensor

    ours = [Cut(p.dim) if isinstance(p, Shard) else Whole() for p in placements]
    return distribute_tensor(tensor, mesh, ours + [Whole()] * (mesh.ndim - len(ours)))


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads pieces back, those of lazy tensors at the next `sync`, and counts the graphs compiled until each."""

    world: World
    noted: list[tuple["Tensor", Placements, dict[int, Array]]] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)
    misplaced: dict[str, Misplaced] = field(default_factory=dict)

    def read(self, tensor: "Tensor", placements: Placements) -> Sharded:
        """Every rank's piece of a global tensor."""
        import torch_xla

        tensor = getattr(tensor, "global_tensor", tensor)
        pieces: dict[int, Array] = {}
        if any(torch_xla._XLAC._check_tensor_need_materialization([tensor])):  # noqa: SLF001  no public way to ask
            self.noted.append((tensor.clone(), placements, pieces))
        else:
            pieces.update(_pieces(tensor, placements, self.world))
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Sharded(shape=tuple(tensor.shape), dtype=dtype, placements=placements, pieces=pieces)

    def sync(self) -> None:
        """Compiles and runs what has been traced, and waits for it."""
        import torch_xla
        from torch_xla.debug import metrics

        torch_xla.sync(wait=True)
        self.graphs.append(metrics.counter_value("UncachedCompile") or 0)
        for tensor, placements, pieces in self.noted:
            pieces.update(_pieces(tensor, placements, self.world))
        self.noted.clear()

    def events(self) -> Events:
        """What the run reports besides tensors: graphs by step, fallbacks to the CPU, JAX's own backends, wrong annotations."""
        from torch_xla.debug import metrics

        if self.noted:
            self.sync()
        syncs = len(self.graphs) // self.world.case.training.steps
        jax = sys.modules.get("jax._src.xla_bridge")
        return Events(
            graphs=tuple(self.graphs[syncs - 1 :: syncs]),
            fallbacks=tuple(sorted(metrics.executed_fallback_ops())),
            jax_backends=tuple(sorted(getattr(jax, "_backends", {}))),
            misplaced=self.misplaced,
        )


def _pieces(tensor: "Tensor", placements: Placements, world: World) -> dict[int, Array]:
    """What each rank holds of a computed tensor, cut at `placements` whatever sharding the compiler chose."""
    from torch_xla.distributed.spmd import XLAShardedTensor

    shards = [
        (tuple(s.indices) if s.indices is not ... else ..., s.replica_id, _array(s))
        for s in XLAShardedTensor(tensor).local_shards
    ]
    return cut(tuple(tensor.shape), shards, placements, world.case.layout.mesh, world.spare)


def cut(
    shape: tuple[int, ...],
    shards: Sequence[tuple[Any, int, Array]],
    placements: Placements,
    mesh: Mesh,
    spare: int = 1,
) -> dict[int, Array]:
    """Every rank's piece of a tensor of `shape`, from its own device's shard where that holds it.

    `shards` are place, replica and values, a shard a device in the devices' order; every rank has `spare` devices.
    """
    pieces = {}
    for rank in range(mesh.world_size):
        _, replica, own = shards[rank * spare]
        whole = np.zeros(shape, own.dtype)
        for place, _, array in sorted(shards, key=lambda shard: (shard[2] is own, shard[1] == replica)):
            whole[place] = array
        pieces[rank] = whole[local_slices(shape, placements, mesh, rank)].copy()
    return pieces


def _array(shard: Any) -> Array:  # noqa: ANN401
    data = shard.unpadded_data.detach()
    return np.asarray((data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy())


@contextmanager
def session(
    world: World,
    place: "Callable[[nn.Module], nn.Module]",
    feed: "Callable[[Tensor], Tensor]",
    operators: "Operators | None" = None,
) -> Iterator["Session"]:
    """A session over all ranks: batches are fed whole, so that losses and gradients are global already."""
    import torch

    from workers.training.operators import Operators
    from workers.training.session import Session

    reader = Reader(world=world)

    def placed(module: "nn.Module") -> "nn.Module":
        there = place(module)
        reader.misplaced = misplaced(there, world.case)
        return there

    yield Session(
        dtype=getattr(torch, world.case.dtype),
        place=placed,
        feed=feed,
        read=reader.read,
        sync=reader.sync,
        operators=replace(operators or Operators(), recompute=recompute),
        environment=devices.describe(),
        events=reader.events,
    )


def recompute(block: "Callable[..., Tensor]", *inputs: Any) -> "Tensor":  # noqa: ANN401
    """`block(*inputs)`, computed again behind an optimization barrier: without one XLA would see the same computation and keep it."""
    from torch_xla.utils.checkpoint import checkpoint

    recomputed: Tensor = checkpoint(block, *inputs)
    return recomputed
