"""Compares two checkpoints tensor by tensor, against the rounding noise of one step.

The noise is measured where a checkpoint of a repetition with rounding-size noise is given. Without it there
is a bound: what rounding may do in one step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from difftest.judge.noise import THRESHOLD
from difftest.runs import layout
from difftest.runs.checkpoint import Array, Checkpoint
from difftest.runs.checkpoint_names import OPTIMIZER, Aligned, require_names
from difftest.runs.comparison import DIFFER, EQUAL, UNDECIDED, Agreement, Setting
from difftest.runs.distances import EPSILON, LEAST_SCALE, SHARE_OF_UPDATE, UNITS

BLOCK = 1 << 22
"""The elements that are compared at a time, in float64."""

ADAM = "exp_avg_sq"


class WrongElement(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that is wrong. `greatest` is the greatest difference of an element, which is at `at`."""

    name: str
    difference: float
    norm: float
    noise: float
    ratio: float
    elements: int
    of: int
    greatest: float
    at: tuple[int, ...]


class CheckpointComparison(Agreement, frozen=True, kw_only=True):
    """The verdict on two checkpoints, and why.

    `wrong` are the tensors that are off, the farthest first. `missing` are those that one checkpoint has
    alone, `shapes` those of two shapes, `torn` those whose copies differ between the ranks of one checkpoint.
    `beside` counts what only one has beside the model. `same` of the `compared` tensors are bit-equal.
    """

    names: tuple[str, str]
    settings: tuple[Setting, ...]
    wrong: tuple[WrongElement, ...]
    missing: tuple[tuple[str, ...], tuple[str, ...]]
    shapes: tuple[Setting, ...]
    torn: tuple[tuple[str, ...], tuple[str, ...]]
    beside: tuple[int, int]
    compared: int
    same: int
    measured: bool
    greatest: float
    notes: tuple[str, ...] = ()


def compare_checkpoints(
    first: Checkpoint,
    second: Checkpoint,
    *,
    noise: Sequence[Checkpoint] = (),
    names: Mapping[str, str] | None = None,
) -> CheckpointComparison:
    """Compares two checkpoints. `noise` are those of repetitions with `difftest.record(..., perturb=1)`.

    `names` gives the second's names by the first's, as in `difftest.compare`.
    """
    names = names or {}
    require_names(names, first)
    pair = _Pair(
        first, second, [Aligned(first, repetition, {}) for repetition in noise], Aligned(first, second, names)
    )
    return pair.result()


@dataclass
class _Pair:
    """Two checkpoints that are compared."""

    first: Checkpoint
    second: Checkpoint
    noise: Sequence[Aligned]
    aligned: Aligned
    _wrong: list[WrongElement] = field(default_factory=list)
    _greatest: float = 0.0

    def result(self) -> CheckpointComparison:
        """The comparison."""
        shapes, far = [], {}
        for mine, other in self.aligned.pairs.items():
            shape = self.first.tensors[mine].shape, self.second.tensors[other].shape
            if shape[0] == shape[1]:
                far[mine] = _far(self.first.array(mine), self.second.array(other))
            else:
                shapes.append(Setting(name=mine, first=str(shape[0]), second=str(shape[1])))
        rate, typical = self._rate(), _typical(far)
        for mine, distance in far.items():
            self._judge(mine, self.aligned.pairs[mine], distance, rate, typical[_kind(mine)])
        self._wrong.sort(key=lambda off: -off.ratio)
        missing, notes = self._alone()
        torn = (tuple(self.first.torn), tuple(self.second.torn))
        wrong = self._wrong or shapes or any(missing) or any(torn)
        return CheckpointComparison(
            verdict=UNDECIDED if not self.aligned.pairs else DIFFER if wrong else EQUAL,
            names=(self.first.name, self.second.name),
            settings=tuple(self._settings()),
            wrong=tuple(self._wrong),
            missing=missing,
            shapes=tuple(shapes),
            torn=torn,
            beside=(self.aligned.beside[0], self.aligned.beside[1]),
            compared=len(far),
            same=sum(not distance.elements for distance in far.values()),
            measured=bool(self.noise),
            greatest=min(self._greatest, 1e30),
            notes=tuple(notes),
        )

    def _judge(self, mine: str, other: str, far: "_Far", rate: float, typical: float) -> None:
        """Decides whether rounding explains how far a tensor is off."""
        noise, allowed = self._allowed(mine, other, far, rate, typical)
        if far.difference <= allowed:
            self._greatest = max(self._greatest, far.difference / noise if noise else 0.0)
            return
        shape = self.first.tensors[mine].shape
        self._wrong.append(
            WrongElement(
                name=mine,
                difference=far.difference,
                norm=far.norm,
                noise=noise,
                ratio=far.difference / noise if noise else math.inf,
                elements=far.elements,
                of=math.prod(shape),
                greatest=far.greatest,
                at=tuple(int(index) for index in np.unravel_index(far.at, shape)),
            )
        )

    def _allowed(
        self, mine: str, other: str, far: "_Far", rate: float, typical: float
    ) -> tuple[float, float]:
        """The noise of a tensor, and the greatest difference that is called rounding."""
        about = self.first.tensors[mine]
        unit = max(EPSILON.get(tensor.dtype, 0.0) for tensor in (about, self.second.tensors[other]))
        if not unit:  # whole numbers
            return 0.0, 0.0
        squares = []
        arrays = (self.first.array(mine), self.second.array(other)) if self.noise else ()
        for repetition in self.noise:
            name = repetition.pairs.get(mine)
            if name and repetition.second.tensors[name].shape == about.shape:
                again = repetition.second.array(name)
                squares.append(min(_far(array, again).difference for array in arrays) ** 2)
        if squares:
            noise = max(math.sqrt(float(np.mean(squares))), unit * far.norm)
            return noise, THRESHOLD * noise
        state = _kind(mine) in OPTIMIZER
        bound = UNITS[layout.GRADIENT if state else layout.UPDATED] * unit
        bound *= max(far.norm, LEAST_SCALE * typical)
        if not state:
            bound += SHARE_OF_UPDATE * rate * math.sqrt(math.prod(about.shape))
        return bound, bound

    def _rate(self) -> float:
        """The learning rate, which is about how far a step of Adam's moves an element; else 0."""
        rates = [0.0]
        for checkpoint in (self.first, self.second):
            if any(_kind(name) == ADAM for name in checkpoint.tensors):
                texts = [text for name, text in checkpoint.values.items() if _kind(name) == "lr"]
                rates += [float(text) for text in texts if _is_number(text)]
        return max(rates)

    def _alone(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], list[str]]:
        """What one checkpoint has alone, but for tied copies of what both have."""
        names, notes = [], []
        paired = [*self.aligned.pairs], [*self.aligned.pairs.values()]
        both = (self.first, self.second)
        for checkpoint, alone, others in zip(both, self.aligned.missing, paired, strict=True):
            tied = {name: twin for name in alone if (twin := _twin(checkpoint, name, others))}
            notes += [
                f"{name} of {checkpoint.name} equals its {twin}, as tied weights do."
                for name, twin in tied.items()
            ]
            names.append(tuple(name for name in alone if name not in tied))
            notes += [
                f"{name} of {checkpoint.name} was not read: {why}" for name, why in checkpoint.unread.items()
            ]
        wraps = [
            f"{head[:-1]!r} in {checkpoint.name}"
            for head, checkpoint in zip(self.aligned.prefixes, both, strict=True)
            if head
        ]
        notes[:0] = [f"The model is called {' and '.join(wraps)}."] if wraps else []
        return (names[0], names[1]), notes

    def _settings(self) -> list[Setting]:
        """What differs besides the tensors' numbers: dtypes, and values that are no tensors."""
        kinds: dict[tuple[str, str], int] = {}
        for mine, other in self.aligned.pairs.items():
            pair = self.first.tensors[mine].dtype, self.second.tensors[other].dtype
            kinds[pair] = kinds.get(pair, 0) + (pair[0] != pair[1])
        settings = [
            Setting(name=f"dtype of {count} tensors", first=own, second=other)
            for (own, other), count in kinds.items()
            if count
        ]
        values = self.second.values
        return settings + [
            Setting(name=name, first=value, second=values[name])
            for name, value in self.first.values.items()
            if values.get(name, value) != value
        ]


@dataclass(frozen=True, kw_only=True)
class _Far:
    """How far two arrays are apart: Euclidean norms, the elements that differ, and the farthest of them."""

    difference: float
    norm: float
    elements: int
    greatest: float
    at: int


def _far(first: Array, second: Array) -> _Far:
    """Compares in blocks. The same values that are not finite are equal; others are infinitely far apart."""
    squares, norms, elements, greatest, at = 0.0, [0.0, 0.0], 0, 0.0, 0
    flat = first.reshape(-1), second.reshape(-1)
    for begin in range(0, first.size, BLOCK):
        blocks = [_wide(array[begin : begin + BLOCK]) for array in flat]
        with np.errstate(invalid="ignore", over="ignore"):
            same = (blocks[0] == blocks[1]) | (np.isnan(blocks[0]) & np.isnan(blocks[1]))
            apart = np.where(same, 0.0, np.abs(blocks[0] - blocks[1]))
        apart = np.where(np.isnan(apart), math.inf, apart)
        squares += float((apart**2).sum())
        norms = [
            norm + float((np.abs(np.where(np.isfinite(block), block, 0.0)) ** 2).sum())
            for norm, block in zip(norms, blocks, strict=True)
        ]
        elements += int((~same).sum())
        worst = int(apart.argmax())
        if apart[worst] > greatest:
            greatest, at = float(apart[worst]), begin + worst
    return _Far(
        difference=math.sqrt(squares),
        norm=math.sqrt(max(norms)),
        elements=elements,
        greatest=greatest,
        at=at,
    )


def _wide(block: Array) -> Array:
    """Numbers in float64 or complex128; whole ones are exact up to 2**53."""
    return block.astype(np.complex128 if block.dtype.kind == "c" else np.float64)


def _twin(checkpoint: Checkpoint, name: str, others: Sequence[str]) -> str:
    """The matrix of the checkpoint with the same bits, such as that to which a head is tied; else empty.

    Vectors and constants are equal by chance.
    """
    about = checkpoint.tensors[name]
    alike = [other for other in others if checkpoint.tensors[other] == about]
    if not alike or len(about.shape) < 2:  # noqa: PLR2004
        return ""
    own = checkpoint.array(name)
    if not own.size or (own == own.flat[0]).all():
        return ""
    return next((other for other in alike if checkpoint.array(other).tobytes() == own.tobytes()), "")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _kind(name: str) -> str:
    """What a tensor is: the last part of its name, such as `weight` or `exp_avg`."""
    return name.rpartition(".")[2]


def _typical(far: Mapping[str, _Far]) -> dict[str, float]:
    """The root mean square of the norms of each kind."""
    squares: dict[str, list[float]] = {}
    for name, distance in far.items():
        squares.setdefault(_kind(name), []).append(distance.norm**2)
    return {kind: math.sqrt(float(np.mean(each))) for kind, each in squares.items()}
