"""A case's parts as Python source: layers, placements, partition specs, optimizers, docstrings."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layout import Placements, Shard
from difftest.cases.script_values import python
from reports.reproducer.blocks import Written

MOST_TITLE = 120
LEAST_TITLE = 40
"""The characters of a docstring: a longer title is cut after a clause, or where that is too early, a word."""

LINE = 110
"""The most columns of a list of layers in one line; a longer list has one layer per line."""


def sequential(case: Case, blocks: Mapping[str, Written], *, moves: bool) -> str:
    """The model as one expression, with one layer per line if it is long.

    `blocks` are its building blocks by path. `moves`: activations have placements that layers can change.
    """
    layers = [
        _layer(layer, str(number), 8, blocks, moves=moves) for number, layer in enumerate(case.model.layers)
    ]
    return _call("nn.Sequential", layers, 4)


def _call(name: str, arguments: list[str], indent: int) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) + indent <= LINE and "\n" not in line:
        return line
    inner = " " * (indent + 4)
    return f"{name}(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + " " * indent + ")"


def _layer(layer: Layer, path: str, indent: int, blocks: Mapping[str, Written], *, moves: bool) -> str:
    if path in blocks:
        return blocks[path].expression
    if layer.held is None:
        return layer.spelled(path, moves=moves)
    inner = [_layer(one, f"{path}.{n}", indent + 4, blocks, moves=moves) for n, one in enumerate(layer.held)]
    return _call(type(layer).__name__, inner, indent)


def index(path: str) -> str:
    """A dotted path of containers as subscripts: `1.2` is `[1][2]`."""
    return "".join(f"[{part}]" for part in path.split("."))


def is_sharded(at: Placements) -> bool:
    """Whether any axis shards."""
    return any(isinstance(placement, Shard) for placement in at)


def placements(at: Placements) -> str:
    """DTensor's placements as a list."""
    return "[" + ", ".join(f"Shard({p.dim})" if isinstance(p, Shard) else "Replicate()" for p in at) + "]"


def partition_spec(case: Case, at: Placements, dims: int) -> str:
    """torch_xla's partition spec as a tuple: for each tensor dim the mesh axes that shard it."""
    held = [
        [n for n, p in zip(case.layout.mesh.names, at, strict=True) if p == Shard(dim)] for dim in range(dims)
    ]
    return python(tuple(names[0] if len(names) == 1 else tuple(names) or None for names in held))


def batch_spec(case: Case) -> str:
    """The partition spec of the batch, up to the last dim that any axis shards."""
    dims = [p.dim for p in case.layout.batch if isinstance(p, Shard)]
    return partition_spec(case, case.layout.batch, max(dims, default=-1) + 1)


def spec_of_fed(case: Case, tensor: str) -> str:
    """The partition spec of the fed tensor in the variable `tensor`, which has at least one dim."""
    spec = batch_spec(case)
    if spec.count(",") == 1:
        return f"({spec[1:-2]}, *[None] * ({tensor}.dim() - 1))"
    return f"(*{spec}, *[None] * {tensor}.dim())[: {tensor}.dim()]"


def batch_axes(case: Case) -> list[tuple[str, int]]:
    """The axes of more than one rank that shard the rows, outermost first."""
    return [
        (name, size) for name, size in case.layout.mesh.axes if name in case.layout.batch_axes and size > 1
    ]


def groups(case: Case, axis: int) -> list[list[int]]:
    """The groups of ranks that differ only along mesh axis number `axis`, from 0."""
    return _apart(case, lambda at: at[:axis] + at[axis + 1 :])


def pairs(case: Case, axis: int) -> list[tuple[int, int]]:
    """Each rank with the next rank of its group; the last is followed by the first."""
    return [pair for group in groups(case, axis) for pair in zip(group, [*group[1:], group[0]], strict=True)]


def loss_groups(case: Case) -> list[list[int]]:
    """The ranks whose shares of the loss add up to the whole."""
    copied = [
        number for number, name in enumerate(case.layout.mesh.names) if name not in case.layout.batch_axes
    ]
    return _apart(case, lambda at: tuple(at[number] for number in copied))


def _apart(case: Case, place: Callable[[tuple[int, ...]], tuple[int, ...]]) -> list[list[int]]:
    """The ranks, grouped by `place` of their coordinate."""
    grouped = dict[tuple[int, ...], list[int]]()
    for rank in range(case.world_size):
        grouped.setdefault(place(case.layout.mesh.coordinate(rank)), []).append(rank)
    return list(grouped.values())


def residuals(case: Case) -> Iterator[str]:
    """The subscripts of residual blocks without a tied weight, innermost first: FSDP gathers each alone."""
    walked = list(walk(case.model.layers))
    tied = [path for path, layer in walked if layer.borrows()]
    blocks = [path for path, layer in walked if layer.held is not None]
    return (index(path) for path in reversed(blocks) if not any(one.startswith(f"{path}.") for one in tied))


def convolutions(case: Case) -> set[str]:
    """The paths of the convolutions."""
    return {path for path, layer in walk(case.model.layers) if not layer.DTENSOR_RULE}


def docstring(text: str) -> str:
    """The text made safe for a docstring's single line, whatever a log put into it."""
    plain = "".join(
        character if character.isascii() and character.isprintable() else " " for character in text
    )
    safe = " ".join(plain.replace("\\", "/").replace('"', "'").split())
    if len(safe) <= MOST_TITLE:
        return safe
    clauses = [place.start() for place in re.finditer(r"[:;,] ", safe[:MOST_TITLE])]
    return (
        safe[: clauses[-1]]
        if clauses and clauses[-1] >= LEAST_TITLE
        else safe[:MOST_TITLE].rpartition(" ")[0]
    )


def numbers(values: npt.NDArray[Any]) -> str:
    """An array's numbers as nested lists; a float has the fewest digits that identify it among float32."""
    if values.ndim:
        return f"[{', '.join(numbers(value) for value in values)}]"
    return str(np.float32(values)) if values.dtype.kind == "f" else str(values)


def table(entries: Mapping[str, str]) -> str:
    """A dict with string keys and values as given; one entry per line if it is long."""
    pairs = [f"{python(key)}: {value}" for key, value in entries.items()]
    line = "{" + ", ".join(pairs) + "}"
    return line if len(line) <= LINE else "{\n" + "".join(f"    {pair},\n" for pair in pairs) + "}"
