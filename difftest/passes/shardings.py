"""Shardings as HLO writes them: which part of an array each partition holds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from difftest.passes.arrays import Array, Each, NotEvaluatedError
from difftest.passes.hlo import HloModule, Instruction, Shape, UnreadableError
from difftest.passes.hlo_text import split

_TILED = re.compile(
    r"devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<dims>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?|(?P<listed>[\d,]+))"
)

_NAMED = re.compile(r"\{mesh\[(?P<axes>[^\]]*)\], (?P<rest>.*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HloSharding:
    """How an array is cut: `tiles` count the parts of each dim, `devices` say who holds which.

    The last dim of `devices` has those that hold the same part. Without tiles every partition holds all.
    """

    tiles: tuple[int, ...] = ()
    devices: tuple[tuple[int, ...], ...] = ()

    def cut(self, array: Array, partitions: int) -> list[Array]:
        """The part of each partition; what is beyond the array's end is padded with zeros."""
        if not self.tiles:
            return [array] * partitions
        sizes = [-(-size // tiles) for size, tiles in zip(array.shape, self.tiles, strict=True)]
        short = [
            (0, size * tiles - had) for size, tiles, had in zip(sizes, self.tiles, array.shape, strict=True)
        ]
        padded = np.pad(array, short)
        parts = [array] * partitions
        for place, holders in zip(np.ndindex(*self.tiles), self.devices, strict=True):
            at = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, sizes, strict=True))
            for device in holders:
                parts[device] = padded[at]
        return parts

    def joined(self, parts: list[Array], dims: tuple[int, ...]) -> list[Array]:
        """The array of these `dims` of which the partitions hold `parts`, once of each that has a copy."""
        if not self.tiles:
            return parts
        return [self._joined(parts, dims, copy) for copy in range(len(self.devices[0]))]

    def _joined(self, parts: list[Array], dims: tuple[int, ...], copy: int) -> Array:
        sizes = parts[0].shape
        whole = np.zeros(
            [size * tiles for size, tiles in zip(sizes, self.tiles, strict=True)], parts[0].dtype
        )
        for place, holders in zip(np.ndindex(*self.tiles), self.devices, strict=True):
            at = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, sizes, strict=True))
            whole[at] = parts[holders[copy]]
        return whole[tuple(slice(0, dim) for dim in dims)]


def sharding_of(text: str, rank: int) -> HloSharding:
    """The sharding of an array with `rank` dims; `UnreadableError` for one that is not supported."""
    if named := _NAMED.match(text):
        return _of_mesh(named, text, rank)
    tiled = _TILED.search(text)
    if tiled is None:
        if not text or "replicated" in text or "maximal" in text or "manual" in text:
            return HloSharding()
        msg = f"no sharding that this program reads: {text[:100]!r}"
        raise UnreadableError(msg)
    tiles = _numbers(tiled["tiles"])
    if tiled["listed"]:
        devices = np.array(_numbers(tiled["listed"]))
    else:
        dims = _numbers(tiled["dims"])
        devices = np.arange(np.prod(dims)).reshape(dims)
        devices = devices.transpose(_numbers(tiled["order"])) if tiled["order"] else devices
    return _tiled(tiles[:rank], devices)


def _of_mesh(named: re.Match[str], text: str, rank: int) -> HloSharding:
    """The sharding by the axes of a mesh, as in `{mesh['a'=2,'b'=2], [{}, {'b'}]}`."""
    sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", named["axes"])}
    if named["rest"].startswith(("replicated", "maximal")):
        return HloSharding()
    dims = re.findall(r"\{([^{}]*)\}", named["rest"].partition("]")[0])
    axes = [re.findall(r"'([^']+)'(?!:)", dim) for dim in dims]
    if not named["rest"].startswith("[") or len(dims) != rank or ":" in named["rest"]:
        msg = f"no sharding that this program reads: {text[:100]!r}"
        raise UnreadableError(msg)
    order = [axis for dim in axes for axis in dim]
    order += [axis for axis in sizes if axis not in order]
    devices = np.arange(np.prod([*sizes.values()], dtype=int)).reshape([*sizes.values()])
    devices = devices.transpose([list(sizes).index(axis) for axis in order])
    tiles = tuple(int(np.prod([sizes[axis] for axis in dim], dtype=int)) for dim in axes)
    return _tiled(tiles, devices)


def _tiled(tiles: tuple[int, ...], devices: Array) -> HloSharding:
    groups = devices.reshape(int(np.prod(tiles, dtype=int)), -1)
    return HloSharding(tiles, tuple(tuple(int(device) for device in group) for group in groups))


def shardings_of(instruction: Instruction) -> tuple[HloSharding, ...]:
    """The sharding of each array of an instruction's result; replicated where it says nothing."""
    text = instruction.attributes.get("sharding", "")
    parts = instruction.shape.parts or (instruction.shape,)
    inner = split(text[1:-1]) if text.startswith("{{") else (text,) * len(parts)
    return tuple(sharding_of(one, len(part.dims)) for one, part in zip(inner, parts, strict=False)) or (
        (HloSharding(),) * len(parts)
    )


def arguments_of(
    module: HloModule, whole: Sequence[Array], shardings: Sequence[HloSharding]
) -> list[list[Array]]:
    """The arguments of each device: whole arrays, or the parts of which the entry's parameters are."""
    pieces = list[list[Array]]()
    for parameter, array, sharding in zip(module.entry.parameters, whole, shardings, strict=True):
        devices = module.partitions * module.replicas
        if parameter.shape.dims == array.shape:
            pieces.append([array] * devices)
        else:
            pieces.append(sharding.cut(array, module.partitions) * module.replicas)
        if any(part.shape != parameter.shape.dims for part in pieces[-1]):
            msg = f"how the parameter {parameter.name} is sharded is not known"
            raise NotEvaluatedError(msg)
    return pieces


def results_of(
    module: HloModule, evaluated: Each, shapes: Sequence[Shape], shardings: Sequence[HloSharding]
) -> list[list[Array]]:
    """The whole arrays of each result, once for every copy that a device holds."""
    root = module.entry.result.shape
    per_device = [value if isinstance(value, tuple) else (value,) for value in evaluated]
    parts = root.parts or (root,)
    results = list[list[Array]]()
    for at, (part, shape, sharding) in enumerate(zip(parts, shapes, shardings, strict=True)):
        values = [value[at] for value in per_device]
        results.append(values if part.dims == shape.dims else sharding.joined(values, shape.dims))
    return results


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
