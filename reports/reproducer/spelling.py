"""A case's parts as Python source: layers, placements, partition specs, optimizers, docstrings."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases import regions
from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import PartialBy, Placement, Placements, Shard
from difftest.cases.routed import SHARDS, routed
from difftest.cases.script_values import python
from reports.reproducer.blocks import Written

MOST_TITLE = 120
LEAST_TITLE = 40
"""The characters of a docstring: a longer title is cut after a clause, or where that is too early, a word."""

Local: TypeAlias = bool | str
CUT_AS: Mapping[Local, str] = {True: "", False: "Replicate()", "sequence": "Shard(1)", "classes": "Shard(-1)"}
"""The placement of activations that are local pieces of what is between two layers, of the sequence, ..."""

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
    block = _call(type(layer).__name__, inner, indent)
    return f"{block}.applied({layer.times})" if isinstance(layer, Residual) and layer.times > 1 else block


def repeats(case: Case) -> bool:
    """Whether a residual block is applied several times."""
    return any(isinstance(layer, Residual) and layer.times > 1 for _, layer in walk(case.model.layers))


def index(path: str) -> str:
    """A dotted path of containers as subscripts: `1.2` is `[1][2]`."""
    return "".join(f"[{part}]" for part in path.split("."))


def is_sharded(at: Placements) -> bool:
    """Whether any axis shards."""
    return any(isinstance(placement, Shard) for placement in at)


def placements(at: Placements) -> str:
    """DTensor's placements as a list."""
    return f"[{', '.join(map(_placement, at))}]"


def _placement(at: Placement) -> str:
    match at:
        case Shard(dim=dim):
            return f"Shard({dim})"
        case PartialBy(by=by):
            return f"Partial({python(by)})"
    return f"{type(at).__name__}()"


def partition_spec(case: Case, at: Placements, dims: int) -> str:
    """torch_xla's partition spec as a tuple: for each tensor dim the mesh axes that shard it."""
    axes = [
        [n for n, p in zip(case.layout.mesh.names, at, strict=True) if p == Shard(dim)] for dim in range(dims)
    ]
    return python(tuple(names[0] if len(names) == 1 else tuple(names) or None for names in axes))


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
    return _of_several_ranks(case, case.layout.batch_axes)


def sequence_axes(case: Case) -> list[tuple[str, int]]:
    """The axes of more than one rank that cut the sequence, outermost first."""
    return _of_several_ranks(case, case.layout.sequence_axes)


def _of_several_ranks(case: Case, axes: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(name, size) for name, size in case.layout.mesh.axes if name in axes and size > 1]


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


def styled(case: Case, path: str, style: tuple[str, Local, Local]) -> str:
    """The style of the layer at `path`, as `parallelize_module` takes it."""
    split, takes, gives = style
    inputs, outputs = CUT_AS[takes], CUT_AS[gives]
    if split == "inputs":
        gathered = "input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)"
        return f"PrepareModuleInput({gathered}, use_local_output=True)"
    if split == "whole":
        if path in regions.norms(case) and takes == gives == "sequence":
            return "SequenceParallel(use_local_output=True)"
        return f"Whole({inputs}, {outputs})" if takes or gives else "Whole()"
    columns = split == "columns"
    arguments = [
        f"input_layouts={inputs}" if inputs and (takes or not columns) else "",
        f"output_layouts={outputs}" if outputs and (gives or columns) else "",
        "use_local_output=False" if gives == "classes" else "",
    ]
    return f"{'Colwise' if columns else 'Rowwise'}Parallel({', '.join(filter(None, arguments))})"


convolutions, gathers = regions.convolutions, regions.gathers  # for templates


def marked_regions(case: Case) -> Iterator[tuple[str, str]]:
    """Layers whose outputs are annotated, with their partition specs."""
    placed = zip(case.layout.mesh.names, case.layout.batch, strict=True)
    rows, dims = tuple(name for name, at in placed if at == Shard(0)), 3 if case.model.sequence else 2
    first = rows[0] if len(rows) == 1 else rows or None
    if case.cut_by.sequence:
        yield "list(model)[:-1]", python((first, "tp", None))
    if case.cut_by.loss != "whole":
        yield "[model]", python((first, *[None] * (dims - 2), "tp"))


def placed_experts(case: Case) -> Mapping[str, str]:
    """The experts' parameters by name, with their placements over `axes_of_experts`, as a list."""
    own = axes_of_experts(case)
    return {
        name: placements(
            tuple(
                at
                for axis, at in zip(case.layout.mesh.names, case.layout.parameters[name], strict=True)
                if axis in own
            )
        )
        for name in routed(case.model)
    }


def axes_of_experts(case: Case) -> tuple[str, ...]:
    """The axes over which experts are DTensors before any wrapper shards them."""
    return tuple(axis for axis in case.layout.mesh.names if axis != SHARDS)


def sharded_experts(case: Case) -> Mapping[str, tuple[int, int]]:
    """The modules of experts by path, and the dims along which `dp_shard` cuts both their parameters."""
    at = case.layout.mesh.names.index(SHARDS)
    dims = {name: getattr(case.layout.parameters[name][at], "dim", 0) for name in routed(case.model)}
    paths = dict.fromkeys(name.rpartition(".")[0] for name in dims)
    return {path: (dims[f"{path}.rising"], dims[f"{path}.falling"]) for path in paths}


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


def numbers(values: npt.NDArray[Any], dtype: str) -> str:
    """An array's numbers as nested lists; a float has the fewest digits that identify it in the dtype.

    Float32 holds the numbers of the shorter ones.
    """
    if values.ndim:
        return f"[{', '.join(numbers(value, dtype) for value in values)}]"
    if values.dtype.kind != "f":
        return str(values)
    return python(float(values)) if dtype == "float64" else str(np.float32(values))


def table(entries: Mapping[str, str]) -> str:
    """A dict with string keys and values as given; one entry per line if it is long."""
    pairs = [f"{python(key)}: {value}" for key, value in entries.items()]
    line = "{" + ", ".join(pairs) + "}"
    return line if len(line) <= LINE else "{\n" + "".join(f"    {pair},\n" for pair in pairs) + "}"
