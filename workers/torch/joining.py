"""Joining torch's process groups, which the next run in the same processes keeps where it asks for the same.

Joining takes longer than many a training step: the ranks meet, connect to one another, and do both again for
the groups along the axes of a mesh. torch is imported inside functions, as in `workers.torch.process_groups`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from difftest.cases.layout import Mesh
from workers.deadlines import MOST_SECONDS
from workers.torch import rendezvous as meeting

if TYPE_CHECKING:
    from torch import device as Device  # noqa: N812  torch's name is in lower case
    from torch.distributed.device_mesh import DeviceMesh

COLLECTIVE_TIMEOUT_SECONDS = 2 * MOST_SECONDS
"""Above every deadline of a run, so that a deadlock is reported as a hang and not as an exception."""


class RankPlace(NamedTuple):
    """A process's place among the ranks: which it is, the mesh over all, its device, and the transport.

    The axis called `flattened`, if one is, is made of two by torch.
    """

    rank: int
    mesh: Mesh
    device: "Device"
    transport: str
    flattened: str = ""


_JOINED = dict[RankPlace, "DeviceMesh"]()
"""Torch's mesh over the group that this process is in, by its place there; at most one."""


def join(place: RankPlace, rendezvous: str, groups: Mapping[str, Any]) -> "DeviceMesh":
    """Torch's mesh over all ranks, which meet at `rendezvous` unless they have.

    `groups` are further arguments of `init_device_mesh`.
    """
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    if place not in _JOINED:
        leave()
        mesh, timeout = place.mesh, timedelta(seconds=COLLECTIVE_TIMEOUT_SECONDS)
        with meeting.of_the_machine(rendezvous):
            there: dict[str, Any] = (
                {"store": meeting.store(rendezvous, place.rank, timeout)}
                if rendezvous.startswith(meeting.SCHEME)
                else {"init_method": rendezvous}
            )
            distributed.init_process_group(
                place.transport, **there, rank=place.rank, world_size=mesh.world_size, timeout=timeout
            )
        axes = mesh.split(place.flattened) if place.flattened else dict(mesh.axes)
        made = init_device_mesh(place.device.type, tuple(axes.values()), mesh_dim_names=tuple(axes), **groups)
        if place.flattened:
            parts = made[tuple(name for name in axes if name not in mesh.names)]
            one = parts._flatten(place.flattened)  # noqa: SLF001  trainers use it, and there is no other
            made = made[mesh.names] if len(mesh.names) > 1 else one
        _JOINED[place] = made
    return _JOINED[place]


def leave() -> None:
    """Leaves the group, where there is one: at the end, and after a run that every rank refused.

    After another failure nobody leaves, since a rank that raised must not wait for the others.
    """
    from torch import distributed

    if _JOINED:
        _JOINED.clear()
        distributed.destroy_process_group()
