"""The layouts of a user's plan: `plan(mesh)` gives placements by patterns of parameters' names.

A mesh comes as a mapping of axis names to sizes. Placements are those of `torch.distributed.tensor`, one for
each axis of the mesh in order. The first pattern that matches a name counts (as in a shell); a parameter that
none matches is replicated. None instead of a mapping says that there is no plan for the mesh.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh, Placement, Placements, Replicate, Shard, replicated
from difftest.ground.errors import UsageError
from workers.own.style_words import places
from workers.own.trial import explained

DATA_AXES = ("dp", "dp_replicate", "dp_shard")
"""The axes over which the batch is cut."""


def layouts(functions: ModuleType, layer: Own, meshes: Iterable[Mesh]) -> tuple[Layout, ...] | None:
    """The layouts of the user's plan on those of `meshes` that it is for; None where there is no plan.

    `UsageError` for a plan that is none, or is for none of the meshes.
    """
    if not places(functions):
        return None
    planned = []
    for mesh in meshes:
        with explained(f"plan({dict(mesh.axes)})"):
            patterns = functions.plan(dict(mesh.axes))
        if patterns is not None:
            planned.append(_layout(layer, mesh, patterns))
    if not planned:
        msg = "plan gives None for every mesh; it was asked for " + ", ".join(map(str, meshes))
        raise UsageError(msg)
    return tuple(planned)


def _layout(layer: Own, mesh: Mesh, patterns: Mapping[str, Sequence[Any]]) -> Layout:
    where = {pattern: _placements(pattern, placements, mesh) for pattern, placements in patterns.items()}
    for pattern in where:
        if not any(fnmatchcase(name, pattern) for name in layer.parameters):
            msg = f"plan({dict(mesh.axes)}) places {pattern!r}, which no parameter matches"
            raise UsageError(msg)
    parameters = {
        f"0.{name}": next(
            (one for pattern, one in where.items() if fnmatchcase(name, pattern)), replicated(mesh)
        )
        for name in layer.parameters
    }
    parameters |= {f"0.{name}": replicated(mesh) for name in layer.buffers()}
    for name, shape in layer.parameters.items():
        for placement in parameters[f"0.{name}"]:
            if isinstance(placement, Shard) and placement.dim >= len(shape):
                msg = f"plan({dict(mesh.axes)}) shards dim {placement.dim} of {name}, which has {len(shape)}"
                raise UsageError(msg)
    batch = tuple(Shard(0) if name in DATA_AXES else Replicate() for name in mesh.names)
    return Layout(mesh=mesh, batch=batch, parameters=parameters)


def _placements(pattern: str, placements: Sequence[Any], mesh: Mesh) -> Placements:
    if not isinstance(placements, Sequence) or len(placements) != len(mesh.axes):
        msg = (
            f"plan({dict(mesh.axes)}) gives {pattern!r} {placements!r}; needed: {len(mesh.axes)} placements, "
            "one for each axis"
        )
        raise UsageError(msg)
    return tuple(_placement(pattern, one) for one in placements)


def _placement(pattern: str, placement: Any) -> Placement:  # noqa: ANN401  torch's placements
    from torch.distributed import tensor

    if isinstance(placement, tensor.Shard) and placement.dim >= 0:
        return Shard(placement.dim)
    if isinstance(placement, tensor.Replicate):
        return Replicate()
    msg = f"plan places {pattern!r} as {placement!r}; allowed: Shard(dim) with a dim from 0, and Replicate()"
    raise UsageError(msg)
