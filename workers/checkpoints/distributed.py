"""`torch.distributed.checkpoint`: a folder with `.metadata` and one file or more of each rank.

The metadata is a pickle. It is read with a list of the classes that describe tensors, so that nothing else is
imported or called; the entries are read with `weights_only`.
"""

import io
import pickle
from collections.abc import Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from difftest.ground.errors import UsageError
from difftest.runs.checkpoint import About, Checkpoint
from workers.torch.shards import CheckpointShard, ShardedCheckpoint, block

ORDER = 1
ABOUT = "a folder of torch.distributed.checkpoint, with its file .metadata"

METADATA = ".metadata"

DESCRIBING = frozenset(
    {
        ("torch.distributed.checkpoint.metadata", "Metadata"),
        ("torch.distributed.checkpoint.metadata", "TensorStorageMetadata"),
        ("torch.distributed.checkpoint.metadata", "BytesStorageMetadata"),
        ("torch.distributed.checkpoint.metadata", "ChunkStorageMetadata"),
        ("torch.distributed.checkpoint.metadata", "TensorProperties"),
        ("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING"),
        ("torch.distributed.checkpoint.metadata", "MetadataIndex"),
        ("torch.distributed.checkpoint.metadata", "StorageMeta"),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("torch.distributed.checkpoint.filesystem", "SerializationFormat"),
        ("torch.serialization", "_get_layout"),
        ("torch", "Size"),
        ("torch", "device"),
        ("collections", "OrderedDict"),
        ("pathlib", "PosixPath"),
        ("pathlib", "PurePosixPath"),
    }
)
"""What metadata may name, besides dtypes. None of these does anything but hold values."""


class _Describing(pickle.Unpickler):
    """Reads metadata; refuses every class and function that does not describe tensors."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        """A class of the list, or a dtype."""
        if (module, name) in DESCRIBING:
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module == "torch" and isinstance(value := getattr(torch, name, None), torch.dtype):
            return value
        msg = f"it names {module}.{name}, which describes no tensor"
        raise pickle.UnpicklingError(msg)


def _member(kind: Any, name: str) -> Enum:  # noqa: ANN401  what the pickle says
    """A member of an enumeration, which Python 3.11.0 to 3.11.3 writes as an attribute of its class."""
    if isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__:
        return kind[name]
    msg = f"it names the attribute {name!r} of {kind!r}, which describes no tensor"
    raise pickle.UnpicklingError(msg)


def recognizes(path: Path) -> bool:
    """By the file `.metadata`."""
    return (path / METADATA).is_file()


def read(path: Path) -> Checkpoint:
    """Reads the metadata and the values; tensors are read one by one."""
    metadata = _metadata(path)
    places = _places(metadata)
    tensors: dict[str, About] = {}
    shards: dict[str, list[CheckpointShard]] = {}
    values, unread = {}, {}
    for name, entry in metadata.state_dict_metadata.items():
        if not hasattr(entry, "chunks"):
            try:
                values[name] = str(_loaded(path, places[name][0][1]))
            except (pickle.UnpicklingError, RuntimeError, OSError, KeyError) as error:
                unread[name] = _reason(error)
            continue
        shape = tuple(entry.size)
        tensors[name] = About(shape=shape, dtype=str(entry.properties.dtype).removeprefix("torch."))
        shards[name] = [
            CheckpointShard(
                at=block(chunk.offsets, chunk.sizes),
                read=partial(_tensor, path, _stored(places.get(name, ()), tuple(chunk.offsets), name)),
            )
            for chunk in entry.chunks
        ]
    return ShardedCheckpoint(name=str(path), tensors=tensors, shards=shards, values=values, unread=unread)


def _metadata(path: Path) -> Any:  # noqa: ANN401  torch's Metadata
    try:
        with (path / METADATA).open("rb") as file:
            metadata = _Describing(file).load()
    except (pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, LookupError) as error:
        msg = f"cannot read {str(path / METADATA)!r}: {_reason(error)}"
        raise UsageError(msg) from error
    if not isinstance(getattr(metadata, "state_dict_metadata", None), dict):
        msg = f"cannot read {str(path / METADATA)!r}: it describes no tensors"
        raise UsageError(msg)
    return metadata


def _places(metadata: Any) -> dict[str, list[tuple[tuple[int, ...] | None, Any]]]:  # noqa: ANN401
    """Where the shards of each entry begin, and where they are stored."""
    places: dict[str, list[tuple[tuple[int, ...] | None, Any]]] = {}
    for index, place in metadata.storage_data.items():
        offset = None if index.offset is None else tuple(index.offset)
        places.setdefault(index.fqn, []).append((offset, place))
    return places


def _stored(places: Sequence[tuple[tuple[int, ...] | None, Any]], offsets: tuple[int, ...], name: str) -> Any:  # noqa: ANN401
    """Where a shard is stored."""
    for offset, place in places:
        if offset is None or offset == offsets:
            return place
    msg = f"the metadata lacks the shard of {name} that begins at {offsets}"
    raise UsageError(msg)


def _loaded(path: Path, place: Any) -> Any:  # noqa: ANN401  what was stored
    """An entry of a rank's file, which lies in the folder."""
    file = path / place.relative_path
    if file.resolve().parent != path.resolve():
        msg = f"the metadata in {str(path)!r} names the file {place.relative_path!r}, which is outside of it"
        raise UsageError(msg)
    if getattr(place, "transform_descriptors", None):
        msg = f"{str(path)!r} is stored with {place.transform_descriptors}, which is not supported"
        raise UsageError(msg)
    with file.open("rb") as stream:
        stream.seek(place.offset)
        content = io.BytesIO(stream.read(place.length))
    return torch.load(content, map_location="cpu", weights_only=True)


def _tensor(path: Path, place: Any) -> Tensor:  # noqa: ANN401
    try:
        loaded = _loaded(path, place)
    except (pickle.UnpicklingError, RuntimeError, OSError) as error:
        msg = f"cannot read {str(path / place.relative_path)!r}: {_reason(error)}"
        raise UsageError(msg) from error
    if not isinstance(loaded, Tensor):
        msg = f"{str(path / place.relative_path)!r} holds a {type(loaded).__name__} in a tensor's place"
        raise UsageError(msg)
    return loaded


def _reason(error: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(error).splitlines()), "")
