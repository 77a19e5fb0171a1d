"""safetensors: a file, or a folder of files with or without an index, as Hugging Face writes them.

Files of `torch.distributed.checkpoint` hold shards; where these begin is in the files' metadata.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from difftest.ground.errors import UsageError
from difftest.ground.installed import how_to_install
from difftest.runs.checkpoint import About, Checkpoint
from workers.checkpoints._index import listed
from workers.torch.shards import CheckpointShard, ShardedCheckpoint, block

ORDER = 2
ABOUT = "a .safetensors file, or a folder of them"

INDEX = ".safetensors.index.json"

SHARDING = "DCP_SHARDING_INFO"
"""The entry of a file's metadata that says where its shards begin."""

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}


def recognizes(path: Path) -> bool:
    """By the suffix of the file, or of the folder's files."""
    return path.name.endswith((".safetensors", INDEX)) or (path.is_dir() and any(path.glob("*.safetensors")))


def read(path: Path) -> Checkpoint:
    """Opens every file; tensors are read one by one."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        msg = f"{str(path)!r} needs safetensors, which is not installed: {how_to_install('safetensors')}"
        raise UsageError(msg) from error
    shapes: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    shards: dict[str, list[CheckpointShard]] = {}
    dtypes: dict[str, str] = {}
    for file in _files(path):
        try:
            opened: Any = safe_open(file, "pt")
            begins = _begins(file, opened.metadata() or {})
            for name in opened.keys():  # noqa: SIM118  it is no mapping
                part = opened.get_slice(name)
                sizes = tuple(part.get_shape())
                offsets = begins.get(name, (0,) * len(sizes))
                dtypes[name] = _dtype(part.get_dtype())
                shapes.setdefault(name, []).append((offsets, sizes))
                one = CheckpointShard(at=block(offsets, sizes), read=partial(opened.get_tensor, name))
                shards.setdefault(name, []).append(one)
                if len(shards[name]) > 1 and name not in begins:
                    msg = (
                        f"{str(path)!r} has {name} in several files, and none says which elements it has; "
                        "merge the shards of tensor parallelism first"
                    )
                    raise UsageError(msg)
        except (SafetensorError, OSError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            msg = f"cannot read {str(file)!r}: {error}"
            raise UsageError(msg) from error
    tensors = {name: About(shape=_whole(blocks), dtype=dtypes[name]) for name, blocks in shapes.items()}
    return ShardedCheckpoint(name=str(path), tensors=tensors, shards=shards)


def _dtype(name: str) -> str:
    """Torch's name of a dtype: `int64` for `I64`."""
    whole = {"I": "int", "U": "uint"}.get(name[:1], "")
    return DTYPES.get(name) or (f"{whole}{name[1:]}" if whole else name.lower())


def _files(path: Path) -> Iterator[Path]:
    """The files of a checkpoint; those that an index names, where there is one."""
    index = path if path.name.endswith(INDEX) else next(iter(sorted(path.glob(f"*{INDEX}"))), None)
    if index is None:
        yield from sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        return
    yield from listed(index)


def _begins(file: Path, metadata: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """Where the shards of a file begin in the whole tensors."""
    if SHARDING not in metadata:
        return {}
    try:
        offsets = json.loads(metadata[SHARDING])
        return {name: tuple(map(int, one["saved_offsets"])) for name, one in offsets.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{str(file)!r} has a {SHARDING} that is not understood"
        raise UsageError(msg) from error


def _whole(blocks: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> tuple[int, ...]:
    """The shape that some blocks fill."""
    ends = ([begin + size for begin, size in zip(*one, strict=True)] for one in blocks)
    return tuple(max(each) for each in zip(*ends, strict=True))
