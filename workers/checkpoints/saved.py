"""`torch.save`: a file of nested dicts, a folder of parts with an index, or the files of all ranks.

Everything is read with `weights_only`, so that no code of a checkpoint runs. A DTensor says which elements a
rank has. FSDP1's sharded tensors say it too; torch reads them in a process group only, so they are read as
plain objects here.
"""

import pickle
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from difftest.ground.errors import UsageError
from difftest.runs.checkpoint import About, Checkpoint
from workers.checkpoints._index import listed
from workers.torch import strided
from workers.torch.shards import CheckpointShard, ShardedCheckpoint, about, block

ORDER = 3
ABOUT = "a file of torch.save, or a folder of such files, one for each rank or with an index"

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".tar")

INDEX = ".bin.index.json"

RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
"""The rank in the name of a file, as in `model_world_size_2_rank_0.pt`."""

PLAIN = (int, float, str, bool, bytes, type(None), torch.dtype, torch.device)


class _Object:
    """What stands for an object of torch's sharded tensors: its state, without its code."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        slots = isinstance(state, tuple) and len(state) == 2 and state[0] is None  # noqa: PLR2004
        self.state = state[1] if slots else state  # type: ignore[index]


class _ShardedTensor(Tensor):
    """A `ShardedTensor` of FSDP1: the shards of one rank, and the metadata of the whole."""

    state: Any

    def __setstate__(self, state: object) -> None:
        self.state = state

    @classmethod
    def __torch_dispatch__(cls, function: object, *_: object) -> None:
        msg = f"a stand-in for a sharded tensor was given to {function}"
        raise TypeError(msg)


_SHARDED = "torch.distributed._shard"

STAND_INS: list[Any] = [
    (_ShardedTensor, f"{_SHARDED}.sharded_tensor.api.ShardedTensor"),
    *(
        (_Object, name)
        for name in (
            f"{_SHARDED}.sharded_tensor.shard.Shard",
            f"{_SHARDED}.sharded_tensor.metadata.ShardedTensorMetadata",
            f"{_SHARDED}.sharded_tensor.metadata.TensorProperties",
            f"{_SHARDED}.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
            f"{_SHARDED}.metadata.ShardMetadata",
            f"{_SHARDED}.sharding_spec.chunk_sharding_spec.ChunkShardingSpec",
            f"{_SHARDED}.sharding_spec.api.EnumerableShardingSpec",
            "torch.distributed.remote_device._remote_device",
        )
    ),
    (lambda *_: _Object, "builtins.getattr"),  # by which sharded tensors name members of classes
]
"""What sharded tensors name in a pickle, and what is made instead."""


@dataclass(slots=True)
class _SavedTensors:
    """What the files have of each tensor."""

    tensors: dict[str, About] = field(default_factory=dict)
    shards: dict[str, list[CheckpointShard]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    plain: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, name: str, whole: About, shards: Sequence[CheckpointShard]) -> None:
        """Adds shards of a tensor."""
        if (before := self.tensors.setdefault(name, whole)) != whole:
            msg = f"{name} has the shape {before.shape} in one file and {whole.shape} in another"
            raise UsageError(msg)
        self.shards.setdefault(name, []).extend(shards)


def recognizes(path: Path) -> bool:
    """By the suffix of a file, or of the folder's files."""
    if path.is_dir():
        return bool(_files(path))
    return path.is_file() and (path.suffix.lower() in SUFFIXES or path.name.endswith(INDEX) or _is_zip(path))


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _files(path: Path) -> list[Path]:
    files = [file for file in sorted(path.iterdir()) if file.is_file()]
    indices = [file for file in files if file.name.endswith(INDEX)]
    return indices[:1] or [file for file in files if file.suffix.lower() in SUFFIXES]


def read(path: Path) -> Checkpoint:
    """Reads every file. Their tensors stay on the disk until they are compared."""
    files = [
        part
        for file in ([path] if path.is_file() else _files(path))
        for part in (listed(file) if file.name.endswith(INDEX) else [file])
    ]
    ranks = [int(match[1]) for file in files if (match := RANK.search(file.name))]
    gathered = _SavedTensors()
    for number, file in enumerate(files):
        for name, leaf in _leaves(_loaded(file), ""):
            _add(gathered, name, leaf, ranks[number] if len(ranks) == len(files) else None)
    return ShardedCheckpoint(
        name=str(path),
        tensors=gathered.tensors,
        shards=gathered.shards,
        values=gathered.values,
        torn=_copies(gathered, path, ranked=len(ranks) == len(files)),
    )


def _loaded(file: Path) -> Any:  # noqa: ANN401  what was saved
    """What a file holds; `UsageError` where that would need code of it."""
    import torch.distributed.tensor  # DTensors are data from there on

    try:
        with torch.serialization.safe_globals(STAND_INS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickles that torch has not made
            return torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, TypeError) as error:
        msg = f"cannot read {str(file)!r}: {_reason(error)}"
        raise UsageError(msg) from error


def _reason(error: Exception) -> str:
    """Why a file is not read; torch's message advises to trust it."""
    if needs := re.search(r"GLOBAL (\w+(?:\.\w+)+)", str(error)):
        return f"it holds an object of {needs[1]}, and no code of a checkpoint runs; save state dicts alone"
    if "Weights only" in str(error):
        return "it does not hold tensors and plain values alone; no code of a checkpoint runs"
    return next(iter(str(error).splitlines()), type(error).__name__)


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    """The tensors and plain values in nested dicts and lists, with their names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{index}" if name else str(index))
    else:
        yield name, value


def _add(gathered: _SavedTensors, name: str, leaf: object, rank: int | None) -> None:
    """Adds what a file has under a name."""
    if isinstance(leaf, _ShardedTensor):
        local, metadata = leaf.state[0], leaf.state[1].state
        shape = tuple(metadata["size"])
        for shard in local:
            tensor, where = shard.state["tensor"], shard.state["metadata"].state
            at = block(where["shard_offsets"], where["shard_sizes"])
            gathered.add(name, about(tensor, shape), [CheckpointShard(at=at, read=partial(_itself, tensor))])
    elif hasattr(leaf, "_local_tensor") and hasattr(leaf, "placements"):
        gathered.add(name, about(leaf, tuple(leaf.shape)), [_of_dtensor(name, leaf, rank)])  # type: ignore[arg-type, attr-defined]
    elif isinstance(leaf, Tensor):
        gathered.plain.setdefault(name, []).append(leaf)
    else:
        gathered.values[name] = str(leaf) if isinstance(leaf, PLAIN) else type(leaf).__name__


def _of_dtensor(name: str, tensor: Any, rank: int | None) -> CheckpointShard:  # noqa: ANN401  a DTensor
    mesh, local = tensor.device_mesh, tensor._local_tensor  # noqa: SLF001  `to_local` needs process groups
    cut = [placement for placement in tensor.placements if not placement.is_replicate()]
    if any(placement.is_partial() for placement in cut):
        msg = f"{name} is a partial sum, which is no checkpoint's tensor"
        raise UsageError(msg)
    if rank is None and cut:
        msg = f"{name} is one rank's share; give the folder of all ranks' files, named like `rank_0.pt`"
        raise UsageError(msg)
    where = (mesh.mesh == rank).nonzero() if cut else []
    if cut and not len(where):
        msg = f"{name} of rank {rank} lies on a mesh without that rank"
        raise UsageError(msg)
    place = where[0].tolist() if cut else [0] * mesh.mesh.dim()
    cuts = list(zip(tensor.placements, mesh.mesh.shape, place, strict=True))
    indices = strided.indices(tuple(tensor.shape), cuts if cut else [])
    return CheckpointShard(at=tuple(indices), read=partial(_itself, local))


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _copies(gathered: _SavedTensors, path: Path, *, ranked: bool) -> list[str]:
    """Adds plain tensors, of which ranks have copies; returns the names of those whose copies differ."""
    torn = []
    for name, copies in gathered.plain.items():
        if len(copies) > 1 and not ranked:
            msg = f"{str(path)!r} has {name} in several files; one of them is compared at a time"
            raise UsageError(msg)
        if len({about(copy) for copy in copies}) > 1:
            msg = f"the files of ranks in {str(path)!r} have {name} in several shapes, and none says why"
            raise UsageError(msg)
        torn += [] if all(_equal(copy, copies[0]) for copy in copies[1:]) else [name]
        first = copies[0]
        at = block((0,) * first.dim(), first.shape)
        gathered.add(name, about(first), [CheckpointShard(at=at, read=partial(_itself, first))])
    return torn


def _equal(one: Tensor, two: Tensor) -> bool:
    return (
        torch.equal(one.nan_to_num(), two.nan_to_num()) if one.is_floating_point() else torch.equal(one, two)
    )
