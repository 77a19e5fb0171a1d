"""Reading a recorded run: the files of all ranks, and every tensor put together from the ranks' shares."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from difftest.ground.errors import DamagedError, UsageError
from difftest.records.disk import cannot_read, whole_lines
from difftest.runs import layout
from difftest.runs.layout import (
    BUCKETS,
    ELEMENTS,
    GREATEST,
    INFS,
    LEAST,
    NANS,
    SQUARES,
    WIDTH,
    Floats,
    Line,
    RankEnvironment,
    Step,
    Tensor,
)

Key: TypeAlias = tuple[str, str, str]

_LINES = msgspec.json.Decoder(Line)
_NAME = re.compile(r"rank-(\d{5})\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of a tensor, with the ranks that have it.

    `odd` are those whose copy differs from most, by the norm `apart` at most.
    """

    words: str
    row: Floats
    ranks: tuple[int, ...]
    odd: tuple[int, ...] = ()
    apart: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTensor:
    """A tensor put together. Its `shares` are by name; it is `comparable` if they add up."""

    about: Tensor
    row: Floats
    shares: Mapping[str, Share]
    comparable: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape; of a batch, all its samples."""
        inner = int(np.prod(self.about.shape[1:]))
        rows = int(self.row[ELEMENTS]) // inner if self.about.batched and inner else self.about.shape[0]
        return (rows, *self.about.shape[1:])

    @property
    def sketch(self) -> Floats:
        """The numbers that add up."""
        return self.row[:BUCKETS]

    @property
    def norm(self) -> float:
        """The Euclidean norm, exact where no share is a partial sum."""
        partial = any("p" in name.partition("]")[2] or name[0] == "p" for name in self.shares)
        return float(np.linalg.norm(self.sketch)) if partial else float(np.sqrt(self.row[SQUARES]))

    @property
    def finite(self) -> bool:
        """Whether every element is a number."""
        return not (self.row[NANS] or self.row[INFS])

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks whose copy differs from those of the others."""
        return tuple(sorted({rank for share in self.shares.values() for rank in share.odd}))


@dataclass(frozen=True, slots=True)
class Rank:
    """What one rank wrote."""

    environment: RankEnvironment
    tensors: Mapping[int, Tensor]
    steps: Mapping[int, Step]
    matrix: Floats


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run of all ranks."""

    folder: Path
    ranks: tuple[Rank, ...]

    @property
    def name(self) -> str:
        """The folder as the user may know it."""
        return str(self.folder)

    @property
    def environment(self) -> RankEnvironment:
        """The first rank's."""
        return self.ranks[0].environment

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The steps that every rank has recorded."""
        common = set.intersection(*({*rank.steps} for rank in self.ranks))
        return tuple(sorted(common))

    def loss(self, step: int) -> float:
        """The mean loss of the ranks that have one; NaN where it is none or was not recorded.

        In a pipeline the ranks of the last stage alone have one.
        """
        losses = [rank.steps[step].loss for rank in self._with_loss]
        return float(np.mean([np.nan if loss is None else loss for loss in losses] or [np.nan]))

    @cached_property
    def _with_loss(self) -> tuple[Rank, ...]:
        return tuple(
            rank for rank in self.ranks if any(rank.steps[step].loss is not None for step in self.steps)
        )

    def whole(self, step: int) -> dict[Key, WholeTensor]:
        """Every tensor of a step, in the order in which it was computed.

        Ranks are the stages of a pipeline in their order, so that the backward pass begins at the last.
        """
        shares: dict[Key, list[tuple[int, Tensor, Floats]]] = {}
        by_rank: list[list[Key]] = []
        for rank in self.ranks:
            line = rank.steps[step]
            rows = rank.matrix[line.row : line.row + len(line.tensors)]
            by_rank.append([])
            for number, row in zip(line.tensors, rows, strict=True):
                about = rank.tensors[number]
                shares.setdefault(about.key, []).append((rank.environment.rank, about, row))
                by_rank[-1].append(about.key)
        backward = (layout.OUTPUT_GRADIENT, layout.GRADIENT)
        forward = [key for keys in by_rank for key in keys if key[0] not in backward]
        back = [key for keys in reversed(by_rank) for key in keys if key[0] in backward]
        return {key: _whole(shares[key]) for key in dict.fromkeys([*forward, *back])}

    def digests(self, step: int) -> dict[str, tuple[int, int, int]]:
        """The digests of the inputs: over different ranks of the batch they add up."""
        by_name: dict[str, list[tuple[int, int, int]]] = {}
        for rank in self.ranks:
            for name, values in rank.steps[step].digests.items():
                by_name.setdefault(name, []).append(values)
        # Ranks along other axes than the batch's have the same samples, so each was counted as often.
        digests = {}
        for name, tensors in by_name.items():
            copies = max(1, len(tensors) // max(1, self.environment.data_ranks))
            first, before, after = (sum(values) // copies % 2**64 for values in zip(*tensors, strict=True))
            digests[name] = (first, before, after)
        return digests


def _whole(given: list[tuple[int, Tensor, Floats]]) -> WholeTensor:
    """A tensor from what the ranks have of it."""
    by_name: dict[str, list[tuple[int, Tensor, Floats]]] = {}
    for one in given:
        by_name.setdefault(one[1].piece.name, []).append(one)
    shares = {name: _share(copies) for name, copies in by_name.items()}
    about = given[0][1]
    plain = about.kind in layout.OWN_TO_RANKS and about.piece.name[0] != "["
    comparable = all(one.comparable for _, one, _ in given)
    if plain:  # copies that differ are then pieces of a tensor, and nobody knows which
        comparable = comparable and not any(share.odd for share in shares.values())
    rows = np.array([share.row for share in shares.values()])
    row = rows.sum(0)
    row[LEAST], row[GREATEST] = rows[:, LEAST].min(), rows[:, GREATEST].max()
    return WholeTensor(about=about, row=row, shares=shares, comparable=comparable)


def _share(copies: list[tuple[int, Tensor, Floats]]) -> Share:
    """A share, with the ranks that disagree about it."""
    texts = [row.tobytes() for _, _, row in copies]
    usual, _ = Counter(texts).most_common(1)[0]
    odd = tuple(rank for (rank, _, _), text in zip(copies, texts, strict=True) if text != usual)
    kept = np.frombuffer(usual, "<f8")
    apart = max(float(np.linalg.norm(row[:BUCKETS] - kept[:BUCKETS])) for _, _, row in copies)
    ranks = tuple(rank for rank, _, _ in copies)
    return Share(words=copies[0][1].piece.words, row=kept, ranks=ranks, odd=odd, apart=apart)


def is_run(folder: Path) -> bool:
    """Whether a folder has the files of a recorded run."""
    return folder.is_dir() and any(_NAME.fullmatch(file.name) for file in folder.iterdir())


def read(folder: Path) -> RecordedRun:
    """The run in a folder; `UsageError` where there is none, where ranks or steps are missing or damaged."""
    if not is_run(folder):
        msg = f"{str(folder)!r} holds no recorded run; difftest.record writes one"
        raise UsageError(msg)
    files = sorted(file for file in folder.iterdir() if _NAME.fullmatch(file.name))
    ranks = tuple(_read_rank(file) for file in files)
    size = ranks[0].environment.world_size
    if [rank.environment.rank for rank in ranks] != list(range(size)):
        have = ", ".join(str(rank.environment.rank) for rank in ranks)
        msg = f"{str(folder)!r} has ranks {have} of a run of {size}; all of them are needed"
        raise UsageError(msg)
    run = RecordedRun(folder, ranks)
    if not run.steps:
        msg = f"{str(folder)!r} has no step that all ranks have recorded; Recorder.step ends one"
        raise UsageError(msg)
    return run


def _read_rank(file: Path) -> Rank:
    lines = _decoded(file)
    first = next(lines, None)
    if not isinstance(first, RankEnvironment) or first.version != layout.VERSION:
        fault = (
            f"is of version {first.version}" if isinstance(first, RankEnvironment) else "has no environment"
        )
        msg = f"{file} {fault}; this difftest reads version {layout.VERSION}"
        raise UsageError(msg)
    if not 1 <= first.data_ranks <= first.world_size:
        msg = f"{file} has {first.data_ranks} data-parallel ranks of {first.world_size}; at least 1 is needed"
        raise DamagedError(msg)
    tensors: dict[int, Tensor] = {}
    steps: dict[int, Step] = {}
    matrix = _matrix(file.with_suffix(".f64"))
    for line in lines:
        match line:
            case Tensor():
                if line.kind not in layout.KINDS or not line.shape or not line.piece.name:
                    msg = f"{file} has a tensor without shape or piece, or of the kind {line.kind!r}"
                    raise DamagedError(msg)
                tensors[line.id] = line
            case Step():
                if line.row < 0 or line.row + len(line.tensors) > len(matrix) or {*line.tensors} - {*tensors}:
                    msg = f"{file} describes rows or tensors of step {line.step} that it does not have"
                    raise DamagedError(msg)
                steps[line.step] = line
            case RankEnvironment():
                msg = f"{file} has a second environment; one file holds one run"
                raise DamagedError(msg)
    return Rank(first, tensors, steps, matrix)


def _decoded(file: Path) -> Iterator[Line]:
    for number, line in enumerate(whole_lines(file), 1):
        try:
            yield _LINES.decode(line)
        except msgspec.MsgspecError as error:
            msg = f"{file}, line {number} cannot be read: {error}"
            raise DamagedError(msg) from error


def _matrix(file: Path) -> Floats:
    """The rows of a file. What a killed process wrote of a last row is left out."""
    try:
        rows = file.stat().st_size // (8 * WIDTH)
        return np.memmap(file, "<f8", "r", shape=(rows, WIDTH)) if rows else np.empty((0, WIDTH))
    except OSError as error:
        raise cannot_read(file, error) from error
