"""Where tensors live: a mesh, and one placement per mesh axis for the batch and for every parameter.

Parallelism is data. Fully sharded training is "every parameter `Shard(0)` over `dp_shard`", tensor
parallelism is "this weight `Shard(0)`, that one `Shard(1)` over `tp`"; each backend has its own way to
establish such a layout.

A sharded dim is cut as `torch.chunk` cuts it, which is DTensor's rule: pieces of `ceil(size / parts)`, the
last ones smaller or empty. If several axes shard one dim, the cuts are nested in mesh axis order.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

AXIS_NAMES = ("dp", "dp_replicate", "dp_shard", "tp", "cp", "pp", "ep")
MOST_AXES = 4
MOST_RANKS = 64
MOST_REMEMBERED = 1 << 14
"""For how many placements it is remembered which rank holds what: a comparison asks for few, but often."""


class Shard(msgspec.Struct, frozen=True, array_like=True, tag="S", forbid_unknown_fields=True):
    """The tensor is cut along `dim` over this mesh axis. `ValueError` for a negative dim."""

    dim: int

    def __post_init__(self) -> None:
        if self.dim < 0:
            msg = f"shard dim is {self.dim}; the least is 0"
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"S{self.dim}"


class Replicate(msgspec.Struct, frozen=True, array_like=True, tag="R", forbid_unknown_fields=True):
    """Every rank along this mesh axis holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


Reduction: TypeAlias = Literal["sum", "avg", "max", "min"]


class Partial(msgspec.Struct, frozen=True, array_like=True, tag="P", forbid_unknown_fields=True):
    """Every rank along this mesh axis holds a share of the whole tensor; the sum of the shares is its value.

    For the float operands of programs alone.
    """

    @property
    def reduction(self) -> Reduction:
        """What makes the value of the shares."""
        return "sum"

    def __str__(self) -> str:
        return "P"


class PartialBy(Partial, frozen=True, array_like=True, tag="PB", forbid_unknown_fields=True):
    """The same, with the mean, the greatest or the least of the shares as the value."""

    by: Literal["avg", "max", "min"]

    @property
    def reduction(self) -> Reduction:
        """What makes the value of the shares."""
        return self.by

    def __str__(self) -> str:
        return f"P({self.by})"


Placement: TypeAlias = Shard | Replicate | Partial | PartialBy
Placements: TypeAlias = tuple[Placement, ...]
Slices: TypeAlias = tuple[slice, ...]


class Mesh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Named axes with their sizes, outermost first; ranks count in row-major order.

    `ValueError` for an unknown or repeated axis name, a size below 1, no axis or too many, or too many ranks.
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= MOST_AXES:
            msg = f"mesh has {len(self.axes)} axes; allowed: 1 to {MOST_AXES}"
            raise ValueError(msg)
        if len(set(self.names)) < len(self.axes):
            msg = f"mesh axes {list(self.names)} repeat a name; each must be unique"
            raise ValueError(msg)
        for name, size in self.axes:
            if name not in AXIS_NAMES:
                msg = f"mesh axis {name!r} is unknown; allowed: {', '.join(AXIS_NAMES)}"
                raise ValueError(msg)
            if size < 1:
                msg = f"mesh axis {name!r} has size {size}; the least is 1"
                raise ValueError(msg)
        if self.world_size > MOST_RANKS:
            msg = f"mesh has {self.world_size} ranks; the most is {MOST_RANKS}"
            raise ValueError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """The axis names, outermost first."""
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axis sizes, outermost first."""
        return tuple(size for _, size in self.axes)

    @property
    def world_size(self) -> int:
        """The number of ranks of the mesh."""
        return math.prod(self.shape)

    def size(self, axis: str) -> int:
        """The number of ranks along an axis; 1 where the mesh has no such axis."""
        return dict(self.axes).get(axis, 1)

    def coordinate(self, rank: int) -> tuple[int, ...]:
        """The position of `rank` on each axis."""
        position: list[int] = []
        for size in reversed(self.shape):
            rank, index = divmod(rank, size)
            position.insert(0, index)
        return tuple(position)

    def split(self, axis: str) -> dict[str, int]:
        """The sizes of the axes by name, `axis` being two of them; the second has two ranks where it can."""
        axes = dict[str, int]()
        for name, size in self.axes:
            inner = 2 if size > 2 and size % 2 == 0 else 1  # noqa: PLR2004  a pair
            parts = {f"{name}_outer": size // inner, f"{name}_inner": inner}
            axes |= parts if name == axis else {name: size}
        return axes

    def __str__(self) -> str:
        return " x ".join(f"{name}={size}" for name, size in self.axes)


ALONE = Mesh((("dp", 1),))
"""The mesh of a case on one device, and of the oracle."""


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mesh, the batch's placements and every parameter's, by parameter name.

    `ValueError` if a tensor has another number of placements than the mesh has axes.
    """

    mesh: Mesh
    batch: Placements
    parameters: Mapping[str, Placements]

    def __post_init__(self) -> None:
        for name, placements in (("the batch", self.batch), *self.parameters.items()):
            if len(placements) != len(self.mesh.axes):
                needed = f"the mesh {self.mesh} needs {len(self.mesh.axes)}"
                msg = f"{name} has {len(placements)} placements; {needed}"
                raise ValueError(msg)

    @property
    def data_ranks(self) -> int:
        """The number of ranks that have rows of their own: the pieces of the batch along dim 0."""
        return ways(0, self.batch, self.mesh)

    @property
    def replicates(self) -> bool:
        """Whether every rank has all parameters whole."""
        return all(isinstance(at, Replicate) for placements in self.parameters.values() for at in placements)

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """The mesh axes that cut the batch along dim 0: what data parallelism averages gradients over."""
        return self._axes_along(0)

    @property
    def sequence_axes(self) -> tuple[str, ...]:
        """The mesh axes that cut the batch along dim 1, its sequence."""
        return self._axes_along(1)

    @property
    def batch_pieces(self) -> int:
        """The number of ranks that have a piece of the batch of their own, by rows or along the sequence."""
        return self.data_ranks * ways(1, self.batch, self.mesh)

    def _axes_along(self, dim: int) -> tuple[str, ...]:
        pairs = zip(self.mesh.names, self.batch, strict=True)
        return tuple(name for name, placement in pairs if placement == Shard(dim))

    def placements_of(self, name: str, shape: Sequence[int], now: Sequence[int]) -> Placements | None:
        """The placements of the parameter `name` of `shape`, whose shape is `now`.

        None where it got another number of dims in place, as by `squeeze_`: nothing says them then.
        """
        return self.parameters[name] if len(shape) == len(now) else None


def chunk(size: int, parts: int, index: int) -> slice:
    """Piece `index` of `range(size)` cut into `parts` by `torch.chunk`'s rule; late pieces may be empty."""
    width = math.ceil(size / parts)
    return slice(min(index * width, size), min((index + 1) * width, size))


def local_slices(shape: Sequence[int], placements: Placements, mesh: Mesh, rank: int) -> Slices:
    """What `rank` holds of a tensor of `shape`: one slice per tensor dim, in global indices."""
    return _local_slices(tuple(shape), placements, mesh, rank)


@functools.lru_cache(MOST_REMEMBERED)
def _local_slices(shape: tuple[int, ...], placements: Placements, mesh: Mesh, rank: int) -> Slices:
    ranges = [range(size) for size in shape]
    coordinate = mesh.coordinate(rank)
    for placement, parts, index in zip(placements, mesh.shape, coordinate, strict=True):
        if isinstance(placement, Shard):
            whole = ranges[placement.dim]
            ranges[placement.dim] = whole[chunk(len(whole), parts, index)]
    return tuple(slice(r.start, r.stop) for r in ranges)


def replica_groups(placements: Placements, mesh: Mesh) -> Iterator[tuple[int, ...]]:
    """Groups of ranks that hold the same piece: ranks that differ only along replicated axes."""
    return iter(_replica_groups(placements, mesh))


@functools.lru_cache(MOST_REMEMBERED)
def _replica_groups(placements: Placements, mesh: Mesh) -> tuple[tuple[int, ...], ...]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.world_size):
        coordinate = mesh.coordinate(rank)
        key = tuple(itertools.compress(coordinate, (isinstance(p, Shard) for p in placements)))
        groups.setdefault(key, []).append(rank)
    return tuple(tuple(ranks) for ranks in groups.values())


def ways(dim: int, placements: Placements, mesh: Mesh) -> int:
    """The number of pieces that a tensor's dim is cut into."""
    return math.prod(
        size for size, placement in zip(mesh.shape, placements, strict=True) if placement == Shard(dim)
    )


def uneven_axes(shape: Sequence[int], placements: Placements, mesh: Mesh) -> int:
    """The number of mesh axes that shard a dim of a tensor of `shape` whose size they do not divide."""
    return sum(
        isinstance(placement, Shard) and shape[placement.dim] % ranks > 0
        for placement, ranks in zip(placements, mesh.shape, strict=True)
    )


def has_shares(placements: Placements) -> bool:
    """Whether the ranks along any axis hold shares."""
    return any(isinstance(placement, Partial) for placement in placements)


def replicated(mesh: Mesh) -> Placements:
    """`Replicate()` on every axis of `mesh`."""
    return (Replicate(),) * len(mesh.axes)
