"""How far each tensor of a step is off, and how far rounding may put it off.

The noise of a tensor is measured: it is the distance between a run and its repetition with rounding-size
noise. Without such a repetition there is only a bound, which is generous: so many units in the last place of
the coarsest dtype for each update since the step before, and no tensor more than `GROWTH` times farther off
than any of its kind in the steps before. Chaos grows smoothly and stays below this; a fault that begins
suddenly does not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from difftest.judge.noise import THRESHOLD
from difftest.runs import layout
from difftest.runs.align import pairs
from difftest.runs.read import Key, RecordedRun, WholeTensor

EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "complex128": 2.0**-52,
    "complex64": 2.0**-23,
}
"""The distance of 1 and the next number of a dtype."""

UNITS = {
    layout.START: 4.0,
    layout.OUTPUT: 64.0,
    layout.BUFFER: 64.0,
    layout.OUTPUT_GRADIENT: 256.0,
    layout.GRADIENT: 256.0,
    layout.UPDATED: 64.0,
}
"""The bound of a first step, in units in the last place of a tensor's norm."""

COARSE, OF_COARSE = 2.0**-10, 1 / 8
"""Of a dtype with units as great as this, the bound has a share of these.

Long sums are float32's there too. In bfloat16 outputs were 0.6 units apart, and gradients 1.3.
"""

FORWARD = ((layout.START, layout.OUTPUT), (layout.BUFFER,))
"""What the forward pass computes, in its order."""

GROWTH = 16.0

LEAST_SCALE = 0.01
"""A tensor's norm counts as at least this share of the root mean square of those of its kind.

Gradients that are zero but for rounding, such as that of the key's bias, are as noisy as their neighbours.
"""

SHARE_OF_UPDATE = 0.5
"""The share of an update that rounding may change: Adam turns around where a gradient is about zero.

A GPU and a CPU were 0.28 apart after AdamW's first step (docs/cuda.md).
"""


LEAST_TURNED = 0.01
"""An element is expected to be turned around by rounding where the expected number is at least this."""

TURNED = 3.0
"""How far an element that is turned around is off, in mean steps of its tensor; twice its own step."""

MOST_BUCKETS = 2.0
"""A difference of so many elements is in at most so many times as many buckets of a sketch."""

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Off:
    """How far a tensor is off. `allowed` is the greatest difference that still is rounding."""

    key: Key
    first: WholeTensor
    second: WholeTensor
    difference: float
    noise: float
    allowed: float

    @property
    def wrong(self) -> bool:
        """Whether rounding does not explain the difference."""
        return not self.difference <= self.allowed

    @property
    def norm(self) -> float:
        """The greater norm."""
        return max(self.first.norm, self.second.norm)


@dataclass(slots=True)
class Distances:
    """Measures steps one after another, from the first on.

    Where the samples are `reordered`, tensors with a row for each sample are not compared. `coarsest` is the
    dtype of the greatest rounding in both runs. `_updates` are those since the step measured before, `_last`.
    """

    first: RecordedRun
    second: RecordedRun
    noise: Sequence[RecordedRun]
    names: Mapping[str, str]
    exact: bool
    reordered: bool = False
    skipped: Counter[str] = field(default_factory=Counter)
    coarsest: str = field(init=False)
    _worst: dict[str, float] = field(default_factory=dict)
    _updates: int = 1
    _last: int | None = None
    _before: dict[Key, WholeTensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.coarsest = _coarsest(self.first, self.second)

    @property
    def unit(self) -> float:
        """The unit in the last place of the coarsest dtype."""
        return EPSILON.get(self.coarsest, 0.0)

    def of(self, step: int) -> list[Off]:
        """Every tensor of a step that both runs have, in the order in which it is computed."""
        mine, other = self.first.whole(step), self.second.whole(step)
        self._updates, self._last = 1 if self._last is None else step - self._last, step
        matched, alone = pairs(mine, other, self.names, exact=self.exact)
        if alone:
            self.skipped["only one of the runs has them"] = max(
                self.skipped["only one of the runs has them"], len(alone)
            )
        self._before.update({key: one for key, one in mine.items() if key[0] == layout.START})
        samples = self._samples(step, mine, other)
        norms = _typical(mine.values())
        offs = []
        for key, one, two in matched:
            if key[0] == layout.INPUT or self._skips(one, two):
                continue
            difference = distance(one, two)
            noise, allowed = self._allowed(key, (one, two), samples, norms[key[0]])
            offs.append(
                Off(key=key, first=one, second=two, difference=difference, noise=noise, allowed=allowed)
            )
        offs = self._with_turned(offs) if samples else offs
        self._remember(offs, norms)
        self._before.update({key: one for key, one in mine.items() if key[0] == layout.UPDATED})
        return in_order(offs)

    def _with_turned(self, offs: Sequence[Off]) -> list[Off]:
        """The tensors, of which updated parameters may differ in the few elements that rounding turns around.

        A first update of Adam's has the sign of the gradient: where that is rounding, one run turns around
        and its repetition may not. Such a difference is that of a few elements, and so in few buckets of the
        sketch; one of the whole parameter is in all of them.
        """
        gradients = {off.key[1:]: off for off in offs if off.key[0] == layout.GRADIENT}
        turned_offs = []
        for off in offs:
            gradient, before = gradients.get(off.key[1:]), self._before_update(off.key)
            if off.key[0] == layout.UPDATED and off.wrong and before and gradient and not gradient.wrong:
                elements = max(1, int(off.first.row[layout.ELEMENTS]))
                turned = elements * min(1.0, THRESHOLD * gradient.noise / max(gradient.first.norm, TINY))
                if turned >= LEAST_TURNED and _buckets(off) <= MOST_BUCKETS * np.ceil(turned):
                    step = distance(before, off.first) / np.sqrt(elements)
                    noise = off.noise + TURNED * step * float(np.sqrt(np.ceil(turned))) / THRESHOLD
                    off = replace(off, noise=noise, allowed=THRESHOLD * noise)  # noqa: PLW2901
            turned_offs.append(off)
        return turned_offs

    def _before_update(self, key: Key) -> WholeTensor | None:
        return self._before.get((layout.UPDATED, *key[1:])) or self._before.get((layout.START, *key[1:]))

    def _skips(self, one: WholeTensor, two: WholeTensor) -> bool:
        reason = ""
        if not (one.comparable and two.comparable):
            reason = "a rank does not know which elements it has"
        elif one.shape != two.shape:
            reason = "their shapes differ"
        elif self.reordered and one.about.batched:
            reason = "their samples are in another order"
        if reason:
            self.skipped[reason] += 1
        return bool(reason)

    def _samples(
        self, step: int, mine: Mapping[Key, WholeTensor], other: Mapping[Key, WholeTensor]
    ) -> list[tuple[Mapping[Key, WholeTensor], Mapping[Key, WholeTensor]]]:
        """Each repetition with the run that it repeats: the one to which it is nearer."""
        chosen: list[tuple[Mapping[Key, WholeTensor], Mapping[Key, WholeTensor]]] = []
        for run in self.noise:
            if step not in run.steps:
                continue
            repeated = run.whole(step)
            chosen.append((min((mine, other), key=lambda base: _apart(base, repeated)), repeated))
        return chosen

    def _allowed(
        self,
        key: Key,
        pair: tuple[WholeTensor, WholeTensor],
        samples: Sequence[tuple[Mapping[Key, WholeTensor], Mapping[Key, WholeTensor]]],
        typical: float,
    ) -> tuple[float, float]:
        """The noise of a tensor, and the greatest difference that is called rounding."""
        one, two = pair
        unit = max(EPSILON.get(whole.about.dtype, 0.0) for whole in pair)
        if samples:
            squares = [
                distance(base[name], repeated[name]) ** 2
                for base, repeated in samples
                if (name := _named(key, two, base, repeated))
            ]
            noise = max(float(np.sqrt(np.mean(squares))) if squares else 0.0, unit * one.norm)
            return noise, THRESHOLD * noise
        if key[0] != layout.START:
            unit = max(unit, self.unit)
        units = UNITS[key[0]] * (OF_COARSE if unit >= COARSE else 1.0)
        scale = max(one.norm, LEAST_SCALE * typical)
        share = max(units * unit * self._updates, GROWTH * self._worst.get(key[0], 0.0))
        bound = share * scale
        before = self._before_update(key)
        if key[0] == layout.UPDATED and before is not None:
            bound += SHARE_OF_UPDATE * distance(before, one)
        return bound, bound

    def _remember(self, offs: Sequence[Off], norms: Mapping[str, float]) -> None:
        """The farthest that a tensor of each kind was off, as a share of its norm."""
        for off in offs:
            scale = max(off.first.norm, LEAST_SCALE * norms[off.key[0]])
            if scale and np.isfinite(off.difference):
                share = min(1.0, off.difference / scale)
                self._worst[off.key[0]] = max(self._worst.get(off.key[0], 0.0), share)


def _coarsest(*runs: RecordedRun) -> str:
    """The coarsest dtype of the tensors that runs compute, which the others come from."""
    tensors = (
        tensor for run in runs for tensor in run.ranks[0].tensors.values() if tensor.kind != layout.INPUT
    )
    return max((tensor.dtype for tensor in tensors), key=lambda dtype: EPSILON.get(dtype, 0.0), default="")


def distance(one: WholeTensor, two: WholeTensor) -> float:
    """The norm of the difference of two tensors; infinite where only one is finite or holds other NaNs."""
    if not (one.finite and two.finite):
        same = np.array_equal(one.row[layout.NANS : layout.ELEMENTS], two.row[layout.NANS : layout.ELEMENTS])
        return 0.0 if same else float("inf")
    return float(np.linalg.norm(one.sketch - two.sketch))


def _buckets(off: Off) -> float:
    """In how many buckets of the sketch the difference is: the participation ratio of its squares."""
    squares = (off.first.sketch - off.second.sketch) ** 2
    return float(squares.sum() ** 2 / max((squares**2).sum(), TINY))


def _named(
    key: Key, two: WholeTensor, base: Mapping[Key, WholeTensor], repeated: Mapping[Key, WholeTensor]
) -> Key | None:
    """The tensor's key in a repetition of either run, if it is there."""
    return next((name for name in (key, two.about.key) if name in base and name in repeated), None)


def _typical(wholes: Iterable[WholeTensor]) -> dict[str, float]:
    """The root mean square of the norms of each kind."""
    by_kind: dict[str, list[float]] = {}
    for whole in wholes:
        by_kind.setdefault(whole.about.kind, []).append(whole.norm if whole.finite else 0.0)
    return {kind: float(np.sqrt(np.mean(np.square(norms)))) for kind, norms in by_kind.items()}


def _apart(base: Mapping[Key, WholeTensor], repeated: Mapping[Key, WholeTensor]) -> float:
    """The median share of its norm by which a tensor of two runs is off; infinite without any."""
    shares = [
        distance(base[key], repeated[key]) / base[key].norm
        for key in base
        if key in repeated and base[key].norm and base[key].shape == repeated[key].shape
    ]
    return float(np.median(shares)) if shares else float("inf")


def in_order(offs: Sequence[Off]) -> list[Off]:
    """The tensors as they are computed: a parameter's gradient after that of its module's output."""
    forward = [
        off for kinds in FORWARD for off in offs if off.key[0] in kinds
    ]  # a buffer is recorded when the step ends
    gradients = [off for off in offs if off.key[0] == layout.GRADIENT]
    backward: list[Off] = []
    for off in offs:
        if off.key[0] == layout.OUTPUT_GRADIENT:
            backward.append(off)
            own = [gradient for gradient in gradients if gradient.key[1].rpartition(".")[0] == off.key[1]]
            backward += [one for one in own if one not in backward]
    backward += [gradient for gradient in gradients if gradient not in backward]
    return [*forward, *backward, *(off for off in offs if off.key[0] == layout.UPDATED)]
