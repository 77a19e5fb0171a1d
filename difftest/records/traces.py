"""The outcome of a run as two files: `NAME.json`, and `NAME.npz` with the arrays.

There is no pickle, and everything is validated on reading. Used between a run's processes and their parent,
and between machines (`difftest.records.bundle`).
"""

import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np

from difftest.cases.layout import Placements
from difftest.ground.errors import UsageError
from difftest.judge.events import Count, Events, Word
from difftest.judge.outcome import Array, Failure, Origin, Outcome, Sharded, Symptom, Tensors, Trace
from difftest.judge.stage import Stage
from difftest.records import read_limits

MOST_BYTES = 2**29
"""The most bytes that the arrays of one run may have.

The generators' cases need some megabytes; a written case of a million float32 parameters on 8 ranks has room.
"""

MOST_NUMBERS = MOST_BYTES // 8
"""The most elements of one tensor: in float64, in which tensors are compared, they have `MOST_BYTES`."""

NUMBERS = "iuf"
"""The kinds of numpy dtypes in a file of arrays: integers and floats."""

DAMAGE = (
    *(
        msgspec.DecodeError,
        OSError,
        ValueError,
        KeyError,
        RecursionError,
        MemoryError,
        OverflowError,
        EOFError,
    ),
    *(
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
        TypeError,
    ),
)
"""What reading damaged files raises; the last two come from the header of an array, which is Python."""

Arrays: TypeAlias = Mapping[str, Array]


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a tensor: so many elements of an array, from `start` on, in row-major order."""

    array: str
    start: Count
    shape: tuple[Count, ...]


class _Tensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor as JSON. Its pieces, by rank, are in the other file: parts of arrays.

    Before 2026-11-28 each piece was an array of its own, whose name is there.
    """

    stage: Stage
    name: str
    shape: tuple[int, ...]
    dtype: str
    placements: Placements
    pieces: dict[str, str | _Part]
    devices: tuple[Word, ...] = ()


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    symptom: Symptom
    stage: Stage
    step: Count
    kind: str
    message: str = ""
    frame: str = ""
    log: str = ""
    operator: str = ""
    rank: Count = 0
    environment: dict[str, str] = {}


class _Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON file: a failure, or the tensors of every step."""

    failure: _Failure | None = None
    steps: tuple[tuple[_Tensor, ...], ...] = ()
    noise: tuple[tuple[_Tensor, ...], ...] = ()
    environment: dict[str, str] = {}
    events: Events = Events()
    origin: Origin | None = None


def save(stem: Path, outcome: Outcome) -> None:
    """Writes `outcome` at `stem`. The JSON file is renamed into place last: where it exists, all is there."""
    saved, arrays = _described(outcome)
    if arrays:
        np.savez(stem.with_name(f"{stem.name}.npz"), **cast("dict[str, Any]", arrays))
    unfinished = stem.with_name(f"{stem.name}.part")
    unfinished.write_bytes(msgspec.json.encode(saved, enc_hook=str))  # versions are a kind of str
    unfinished.rename(stem.with_name(f"{stem.name}.json"))


def load(stem: Path) -> Outcome | None:
    """The outcome that `save` wrote at `stem`; None when there is none.

    `UsageError` names the file where it is damaged, too large, or has events that are not of their types.
    """
    file = stem.with_name(f"{stem.name}.json")
    if not file.exists():
        return None
    try:
        saved = msgspec.json.decode(read_limits.read(file, read_limits.MOST_RUN_BYTES), type=_Saved)
        if saved.failure is not None:
            return Failure(**msgspec.structs.asdict(saved.failure), origin=saved.origin)
        _check_sizes(saved)
        arrays = _arrays(stem.with_name(f"{stem.name}.npz")) if saved.steps else {}
        steps, noise = (
            tuple(_restored(step, arrays) for step in tensors) for tensors in (saved.steps, saved.noise)
        )
    except DAMAGE as error:
        msg = f"{file} cannot be read: {type(error).__name__}: {error}"
        raise UsageError(msg) from error
    return Trace(
        steps=steps,
        noise=noise,
        environment=saved.environment,
        events=saved.events,
        origin=saved.origin,
    )


def _described(outcome: Outcome) -> tuple[_Saved, dict[str, Array]]:
    """What is written as JSON, and the arrays: one for each dtype, with all pieces one after another.

    An array for each piece would take a rank a fifth of its time.
    """
    if isinstance(outcome, Failure):
        fields = {name: _clean(getattr(outcome, name)) for name in _Failure.__struct_fields__}
        return _Saved(failure=_Failure(**fields), origin=outcome.origin), {}
    joined = _Joined()
    steps, noise = (
        tuple(_tensors(step, joined) for step in tensors) for tensors in (outcome.steps, outcome.noise)
    )
    saved = _Saved(
        steps=steps,
        noise=noise,
        environment=dict(outcome.environment),
        events=outcome.events,
        origin=outcome.origin,
    )
    return saved, joined.arrays()


def _clean(value: Any) -> Any:  # noqa: ANN401  a field of a failure
    """A value that can be written: the last output of a process need not be Unicode."""
    if isinstance(value, str) and not isinstance(value, Stage | Symptom):
        return value.encode(errors="replace").decode()
    return dict(value) if isinstance(value, Mapping) else value


class _Joined:
    """Pieces of tensors, one after another, apart by dtype."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Array]] = {}
        self._sizes = Counter[str]()

    def part(self, piece: Array) -> _Part:
        """The part that the piece is, after all that came before."""
        name = piece.dtype.name
        start = self._sizes[name]
        self._pieces.setdefault(name, []).append(piece.reshape(-1))
        self._sizes[name] += piece.size
        return _Part(name, start, piece.shape)

    def arrays(self) -> dict[str, Array]:
        """The arrays, by dtype."""
        return {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}


def _tensors(tensors: Tensors, joined: _Joined) -> tuple[_Tensor, ...]:
    """A step's tensors as JSON, whose pieces are in `joined` then."""
    return tuple(
        _Tensor(
            stage=stage,
            name=name,
            shape=tensor.shape,
            dtype=tensor.dtype,
            placements=tensor.placements,
            pieces={str(rank): joined.part(piece) for rank, piece in tensor.pieces.items()},
            devices=tensor.devices,
        )
        for (stage, name), tensor in tensors.items()
    )


def _check_sizes(saved: _Saved) -> None:
    """`ValueError` where tensors share an array or are too large: a small file would take much memory."""
    tensors = [tensor for step in (*saved.steps, *saved.noise) for tensor in step]
    pieces = [piece for tensor in tensors for piece in tensor.pieces.values()]
    names = [piece for piece in pieces if isinstance(piece, str)]
    if len(names) != len(set(names)):
        msg = f"{len(names)} pieces of tensors share {len(set(names))} arrays; each must have its own"
        raise ValueError(msg)
    ends = Counter[str]()
    for piece in pieces:
        if isinstance(piece, _Part):
            if piece.start != ends[piece.array]:
                end = ends[piece.array]
                msg = f"a piece is at {piece.start} of {piece.array}; the one before it ends at {end}"
                raise ValueError(msg)
            ends[piece.array] += math.prod(piece.shape)
    if (most := max((math.prod(tensor.shape) for tensor in tensors), default=0)) > MOST_NUMBERS:
        msg = f"a tensor has {most} elements; allowed: {MOST_NUMBERS}"
        raise ValueError(msg)


def _arrays(file: Path) -> Arrays:
    """The arrays of a file; `ValueError`, before anything is unpacked, for too large ones or other types.

    `save` compresses nothing, so a file whose entries are compressed or overlap was made to expand.
    """
    with zipfile.ZipFile(file) as packed:
        entries = packed.infolist()
        size, unpacked = file.stat().st_size, sum(entry.file_size for entry in entries)
        if unpacked > size or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            msg = (
                f"{file.name} has {size} bytes and unpacks to {unpacked}; its entries must not be compressed"
            )
            raise ValueError(msg)
        if unpacked > MOST_BYTES:
            msg = f"{file.name} unpacks to {unpacked} bytes; allowed: {MOST_BYTES}"
            raise ValueError(msg)
        return {entry.filename.removesuffix(".npy"): _array(packed, entry) for entry in entries}


def _array(packed: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """An array of a file; `ValueError` where its header does not describe as many numbers as the entry has.

    numpy's own `load` would read every header again, which takes longer than small arrays do.
    """
    with packed.open(entry) as opened:
        version = np.lib.format.read_magic(opened)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, by_column, dtype = read(opened)
        left = entry.file_size - opened.tell()
        if dtype.kind not in NUMBERS:
            msg = f"{entry.filename} is of dtype {dtype}; allowed: numbers"
            raise ValueError(msg)
        if math.prod(shape) * dtype.itemsize != left:
            msg = f"{entry.filename} has {left} bytes for {math.prod(shape)} elements of {dtype}"
            raise ValueError(msg)
        content = bytearray(opened.read())  # the array can be written to, as those of `load`
    array: Array = np.ndarray(shape, dtype, content, order="F" if by_column else "C")
    return array


def _restored(described: Sequence[_Tensor], arrays: Arrays) -> Tensors:
    return {
        (d.stage, d.name): Sharded(
            shape=d.shape,
            dtype=d.dtype,
            placements=d.placements,
            pieces={int(rank): _piece(piece, arrays) for rank, piece in d.pieces.items()},
            devices=d.devices,
        )
        for d in described
    }


def _piece(where: str | _Part, arrays: Arrays) -> Array:
    """A piece; `ValueError` or `KeyError` where the arrays have no such part."""
    if isinstance(where, str):
        return arrays[where]
    size = math.prod(where.shape)
    return arrays[where.array][where.start : where.start + size].reshape(where.shape)
