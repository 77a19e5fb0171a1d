"""Which program is at which index: first what reaches most, then every placement and variant, then chains.

Rounds follow one another. A round visits every operator, in an order that the seed decides, and ends with
blocks of chains. In the first rounds every operator has one of its `first_singles` after the other. `BLOCK`
successive programs have the same mesh, so that they can share processes. An operator that has been enumerated
on a mesh leaves its place to a chain.

An hour takes three of an operator's hundred programs after the first. Each operator's enumeration begins at
a place that the seed decides, so that an hour has all kinds of variants, and another night others. So does
the order of meshes, of which a short campaign reaches the first.
"""

import functools
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from difftest.cases.layout import Mesh
from generators.layouts import require_ranks
from generators.operators.singles import Single, first_singles, singles
from generators.operators.table import OperatorEntry, modules, usable

Scheduled: TypeAlias = Literal["operators", "modules"]

One = TypeVar("One")

BLOCK = 20
CHAIN_BLOCKS = 6
"""The blocks of chains at the end of a round: a sixth of it."""

PAIR, GRID = Mesh((("tp", 2),)), Mesh((("dp", 2), ("tp", 2)))
MESHES = (PAIR, GRID, PAIR, Mesh((("tp", 4),)), PAIR, Mesh((("dp", 1),)))
"""The meshes of successive blocks, the first by the seed; in the next round each has the next of them."""


@dataclass(frozen=True, slots=True)
class ScheduledPlace:
    """What is at an index: its mesh, and the operator; None for a chain."""

    mesh: Mesh
    single: Single | None


def place_at(seed: int, index: int, *, max_world_size: int, kind: Scheduled = "operators") -> ScheduledPlace:
    """What the schedule of `seed` has at `index`; that of modules has no chains, and enumerates anew."""
    order = _order(seed, kind)
    blocks = -(-len(order) // BLOCK) + (CHAIN_BLOCKS if kind == "operators" else 0)
    visit, position = divmod(index, blocks * BLOCK)
    block = position // BLOCK
    own_meshes = meshes(max_world_size)
    turn = (seed + block) % len(own_meshes)
    mesh = own_meshes[(turn + visit) % len(own_meshes)]
    if position >= len(order) and kind == "operators":
        return ScheduledPlace(mesh, None)
    position %= len(order)
    first = first_singles(order[position].name, mesh)
    if visit < len(first):
        return ScheduledPlace(mesh, first[visit])
    own = singles(order[position].name, mesh)
    rounds = range(len(first), visit)
    number = sum(own_meshes[(turn + before) % len(own_meshes)] == mesh for before in rounds)
    rotated = number + own_meshes.index(mesh) * STRIDE + _beginning(seed, order[position].name)
    left = number < len(own) or kind == "modules"
    return ScheduledPlace(mesh, own[rotated % len(own)] if left else None)


def _beginning(seed: int, name: str) -> int:
    """Where the enumeration of an operator begins, a number of any size."""
    return int.from_bytes(hashlib.sha256(f"{name} {seed}".encode()).digest()[:4])


STRIDE = 3
"""By how many programs the enumeration on one mesh is ahead of that on the mesh before it."""


@functools.cache
def meshes(max_world_size: int) -> tuple[Mesh, ...]:
    """The meshes of at most so many ranks; `UsageError` for a number out of range."""
    require_ranks(max_world_size)
    return tuple(mesh for mesh in MESHES if mesh.world_size <= max_world_size)


def in_order(purpose: str, seed: int, every: Sequence[One]) -> tuple[One, ...]:
    """All of them, in an order that a seed decides for a purpose."""
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return tuple(random.Random(digest).sample(every, len(every)))  # noqa: S311  not secret


@functools.lru_cache(maxsize=4)
def _order(seed: int, kind: Scheduled) -> tuple[OperatorEntry, ...]:
    """The operators, or the modules, in the order of a seed."""
    digest = hashlib.sha256(f"{kind} {seed}".encode()).digest()
    own = list(usable() if kind == "operators" else modules())
    random.Random(digest).shuffle(own)  # noqa: S311  not secret
    return tuple(own)
