"""Compares two recorded runs: what differs around them, the first wrong place, and whether it is rounding."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from difftest.ground.errors import UsageError
from difftest.judge.noise import THRESHOLD
from difftest.runs import layout
from difftest.runs.align import by_structure, require_names
from difftest.runs.comparison import DIFFER, EQUAL, LOSS, UNDECIDED, Point, RunComparison, WrongTensor
from difftest.runs.distances import COARSE, FORWARD, GROWTH, UNITS, Distances, Off
from difftest.runs.hints import CLOSE, candidates, factor, hints, nearest
from difftest.runs.read import RecordedRun, read
from difftest.runs.settings import another_order, differences, different_data

CHAOTIC = 0.25
"""From this share of noise in the gradients on, runs can no longer be compared."""

GUILTY = 0.1
"""Shares that are off by this much of the farthest are named with it."""


def compare(
    first: Path | str,
    second: Path | str,
    *,
    noise: Sequence[Path | str] = (),
    names: Mapping[str, str] | None = None,
) -> RunComparison:
    """Compares the recorded runs in two folders.

    `noise` are the folders of repetitions of either run with `difftest.record(..., perturb=1)`. `names` gives
    the second run's names of modules and parameters by those of the first; a parent stands for what is below
    it, and `*` for one part. Without it, names that share little are aligned by structure.

    `difftest.ground.errors.UsageError` for a folder without a run, for noise that is not perturbed or is one
    of the two, and for a name that the first run does not have.
    """
    runs = read(Path(first)), read(Path(second))
    repeated = [read(Path(one)) for one in noise]
    for run in repeated:
        if not run.environment.perturbed or run.folder.resolve() in {one.folder.resolve() for one in runs}:
            needed = "it needs difftest.record(..., perturb=1) and a folder of its own"
            msg = f"{run.name} measures no noise; {needed}"
            raise UsageError(msg)
    if names:
        require_names(names, runs)
    structure = {} if names else by_structure(*runs)
    walk = _Walk(runs, repeated, names or structure, exact=bool(structure))
    return walk.result()


class _Walk:
    """Goes through the common steps until something is wrong, and through the losses of all."""

    def __init__(
        self,
        runs: tuple[RecordedRun, RecordedRun],
        noise: Sequence[RecordedRun],
        names: Mapping[str, str],
        *,
        exact: bool,
    ) -> None:
        self._runs, self._noise, self._names = runs, noise, names
        self._distances = Distances(*runs, noise, names, exact)
        self._settings = tuple(differences(*runs, names))
        self._notes = ["Modules were aligned by structure: the runs share few names."] if exact else []
        self._first: WrongTensor | None = None
        self._hints: tuple[str, ...] = ()
        self._wrong: dict[str, int] = {}
        self._compared, self._greatest = 0, 0.0
        self._horizon: int | None = None
        self._band, self._points, self._times = 0.0, list[Point](), 1.0

    def result(self) -> RunComparison:
        """The comparison."""
        if self._distances.unit >= COARSE:
            dtype = self._distances.coarsest
            self._note(f"Rounding is that of {dtype}, the coarsest dtype of both runs.")
        steps = sorted({*self._runs[0].steps} & {*self._runs[1].steps})
        for step in steps:
            if self._first is None and self._horizon is None:
                self._look(step)
            self._points.append(self._point(step))
        return RunComparison(
            verdict=DIFFER if self._first else EQUAL if self._compared else UNDECIDED,
            names=(self._runs[0].name, self._runs[1].name),
            settings=self._settings,
            first=self._first,
            hints=self._hints,
            wrong=self._wrong,
            steps=len(steps),
            compared=self._compared,
            skipped=dict(self._distances.skipped),
            measured=bool(self._noise),
            greatest=min(self._greatest, 1e30),
            horizon=self._horizon,
            points=tuple(self._points),
            notes=tuple(self._notes),
        )

    def _look(self, step: int) -> None:
        """Compares a step, up to where rounding alone has made the runs incomparable."""
        if data := different_data(*self._runs, step, self._names):
            self._first, words = data
            self._hints = hints(self._first, (), self._runs, self._settings, words)
            return
        if another_order(*self._runs, step, self._names):
            self._distances.reordered = True
            self._note(
                "The runs had the same samples in another order, as DistributedSampler deals them out."
            )
        offs = self._conventional(self._distances.of(step))
        if self._chaotic(offs):
            self._horizon = step
            return
        self._compared += len(offs)
        right = itertools.takewhile(lambda off: not off.wrong, offs)
        self._greatest = max(self._greatest, *(off.difference / off.noise for off in right if off.noise), 0.0)
        place = self._odd(step) or self._wrong_place(step, offs)
        if place:
            self._first = place
            wrong = [off for off in offs if off.wrong]
            self._wrong = {kind: sum(off.key[0] == kind for off in wrong) for kind in layout.KINDS}
            self._wrong = {kind: count for kind, count in self._wrong.items() if count}
            self._hints = hints(place, offs, self._runs, self._settings, "")

    def _chaotic(self, offs: Sequence[Off]) -> bool:
        """Whether rounding alone is a great share of the gradients.

        Without measured noise their difference stands for it, and only while nothing is wrong.
        """
        gradients = [off for off in offs if off.key[0] == layout.GRADIENT and off.norm]
        if not gradients or (not self._noise and any(off.wrong for off in offs)):
            return False
        sizes = [(off.noise if self._noise else off.difference) / off.norm for off in gradients]
        return float(np.median(sizes)) > CHAOTIC

    def _conventional(self, offs: list[Off]) -> list[Off]:
        """Gradients of outputs without a factor that all have alike, if the parameters' gradients are right.

        Whether a rank's loss is its mean or its share of the whole batch's is a convention.
        """
        if any(off.wrong for off in offs if off.key[0] == layout.GRADIENT):
            return offs
        outputs = [off for off in offs if off.key[0] == layout.OUTPUT_GRADIENT and off.norm]
        times = [factor(off.first.sketch, off.second.sketch) for off in outputs]
        measured = [time for time in times if time is not None]
        if not measured or not any(off.wrong for off in outputs):
            return offs
        usual = float(np.median(measured))
        alike = all(time is not None and abs(time / usual - 1) < CLOSE for time in times)
        size, _ = nearest(usual, candidates(self._runs))
        if not alike or not size:
            return offs
        self._note(f"Gradients of outputs are {size:g} times as large in {self._runs[1].name} by convention.")
        return [_divided(off, size) if off in outputs else off for off in offs]

    def _note(self, note: str) -> None:
        self._notes += [] if note in self._notes else [note]

    def _odd(self, step: int) -> WrongTensor | None:
        """The first copy of a parameter or gradient that differs from its copies in the same run."""
        for run in self._runs:
            for key, whole in run.whole(step).items():
                if key[0] in layout.PARAMETERS and whole.odd:
                    return WrongTensor(
                        step=step,
                        kind=key[0],
                        owner=key[1],
                        place=key[2],
                        difference=max(share.apart for share in whole.shares.values()),
                        norm=whole.norm,
                        ranks=whole.odd,
                        share=f"the copy of rank {', '.join(map(str, whole.odd))} of {run.name}",
                    )
        return None

    def _wrong_place(self, step: int, offs: Sequence[Off]) -> WrongTensor | None:
        outputs = [off for off in offs if any(off.key[0] in kinds for kinds in FORWARD)]
        self._convene(step, offs)
        loss = self._loss_wrong(step)
        before = ""
        for off in offs:
            if loss and off not in outputs:
                return loss
            if off.wrong:
                return self._described(step, off, before)
            before = WrongTensor(step=step, kind=off.key[0], owner=off.key[1], place=off.key[2]).tensor
        return loss

    def _described(self, step: int, off: Off, before: str) -> WrongTensor:
        ranks, share = _guilty(off, self._runs[1].name)
        return WrongTensor(
            step=step,
            kind=off.key[0],
            owner=off.key[1],
            place=off.key[2],
            difference=off.difference,
            norm=off.norm,
            noise=off.noise,
            ratio=off.difference / off.noise if off.noise else math.inf,
            ranks=ranks,
            share=share,
            before=before,
            users=off.first.about.users,
        )

    def _convene(self, step: int, offs: Sequence[Off]) -> None:
        """Finds a factor of the losses by convention: that of a layout, where every gradient is right.

        Some models divide a micro-batch's loss by all samples of the step, others by its own.
        """
        gradients = [off for off in offs if off.key[0] == layout.GRADIENT]
        one, two = self._losses(step)
        if not gradients or any(off.wrong for off in gradients) or abs(one - two) <= self._widened(step):
            return
        for size, words in candidates(self._runs).items():
            if abs(one - two / size) <= self._widened(step):
                self._times = size
                self._notes.append(f"Losses are {size:g} times as large in {self._runs[1].name}: {words}.")
                return

    def _losses(self, step: int) -> tuple[float, float]:
        """Both losses, without a factor that is a convention."""
        return self._runs[0].loss(step), self._runs[1].loss(step) / self._times

    def _loss_wrong(self, step: int) -> WrongTensor | None:
        one, two = self._losses(step)
        if math.isnan(one) and math.isnan(two):
            return None
        band = self._widened(step)
        if abs(one - two) <= band:
            return None
        noise = band / THRESHOLD if self._noise else band
        ratio = abs(one - two) / noise if noise else math.inf
        return WrongTensor(
            step=step, kind=LOSS, owner="", difference=abs(one - two), norm=abs(one), noise=noise, ratio=ratio
        )

    def _widened(self, step: int) -> float:
        """How far rounding may part the losses of a step; it never shrinks again."""
        one, two = self._losses(step)
        unit = self._distances.unit
        size = max((abs(loss) for loss in (one, two) if math.isfinite(loss)), default=0.0)
        if self._noise:
            apart = [
                min(abs(run.loss(step) - base) for base in (one, two))
                for run in self._noise
                if step in run.steps
            ]
            apart = [value for value in apart if math.isfinite(value)]
            noise = float(np.sqrt(np.mean(np.square(apart)))) if apart else 0.0
            self._band = max(self._band, THRESHOLD * max(noise, unit * size))
        else:
            self._band = max(self._band, UNITS[layout.OUTPUT] * unit * size)
        return self._band

    def _point(self, step: int) -> Point:
        """A step of the curves. Without measured noise the band follows the difference."""
        one, two = self._losses(step)
        band = self._widened(step)
        if not self._noise and self._first is None and math.isfinite(one - two):
            self._band = max(self._band, GROWTH * abs(one - two))
        comparable = self._horizon is None or step < self._horizon
        return Point(step=step, first=_json(one), second=_json(two), band=band, comparable=comparable)


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _divided(off: Off, size: float) -> Off:
    """The tensor as if the second run had not multiplied it with `size`."""
    apart = float(np.linalg.norm(off.first.sketch - off.second.sketch / size))
    return Off(
        key=off.key,
        first=off.first,
        second=off.second,
        difference=apart,
        noise=off.noise,
        allowed=off.allowed,
    )


def _guilty(off: Off, second: str) -> tuple[tuple[int, ...], str]:
    """The ranks whose share is off, where both runs cut the tensor alike and not all shares are."""
    mine, other = off.first.shares, off.second.shares
    if {*mine} != {*other} or len(mine) < 2:  # noqa: PLR2004  one share is the whole
        return (), ""
    apart = {
        name: float(np.linalg.norm(mine[name].row[: layout.BUCKETS] - other[name].row[: layout.BUCKETS]))
        for name in mine
    }
    worst = max(apart.values())
    guilty = [name for name, size in apart.items() if size > GUILTY * worst or math.isnan(size)]
    if not guilty or len(guilty) == len(apart):
        return (), ""
    ranks = tuple(sorted(rank for name in guilty for rank in other[name].ranks))
    words = "; ".join(dict.fromkeys(other[name].words for name in guilty))
    return ranks, f"rank {', '.join(map(str, ranks))} of {second}: {words}"
