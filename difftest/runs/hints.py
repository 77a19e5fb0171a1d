"""Hints by pattern: what usually is behind a difference of this shape."""

from collections.abc import Mapping, Sequence

import numpy as np

from difftest.runs import layout
from difftest.runs.comparison import DATA, LOSS, Setting, WrongTensor
from difftest.runs.distances import Off, distance
from difftest.runs.read import RecordedRun, WholeTensor

CLOSE = 0.02
"""A tensor is a multiple of another if this share of it at most is left."""

KEPT = 0.01
"""A parameter was not updated if it moved by this share at most of what parts the runs."""

EXPLAINED = 0.1
"""A factor explains a difference of which this share at most is left without it."""

COARSE = (2.0**-12, 2.0**-6)
"""Relative differences of this size come from bfloat16 or TF32 in one of the runs."""


def hints(
    place: WrongTensor,
    offs: Sequence[Off],
    runs: tuple[RecordedRun, RecordedRun],
    settings: Sequence[Setting],
    data: str,
) -> tuple[str, ...]:
    """Sentences, the likeliest first."""
    if place.kind == DATA:
        return (f"{runs[1].name} has {data} there. Nothing after that can be compared.",)
    wrong = [off for off in offs if off.wrong]
    factors = _factors(place, wrong, offs, runs)
    sentences = [
        *_copies(place),
        *_start(place),
        *_not_updated(place, wrong, runs),
        *_arguments(place, settings),
        *factors,
        *_dropout(place, runs),
        *([] if factors else _coarse(place, settings, runs[0].steps[0])),
        *_loss(place, offs, runs),
    ]
    return tuple(dict.fromkeys(sentences))


def factor(one: "layout.Floats", two: "layout.Floats") -> float | None:
    """What `one` is multiplied with in `two`, if it is a multiple."""
    square = float(one @ one)
    if not square or not np.isfinite(two).all() or not np.isfinite(square):
        return None
    times = float(one @ two) / square
    left = float(np.linalg.norm(two - times * one))
    return times if times and left <= CLOSE * abs(times) * square**0.5 else None


def candidates(runs: tuple[RecordedRun, RecordedRun]) -> dict[float, str]:
    """Factors that layouts explain, with their words."""
    causes: dict[float, str] = {}
    sizes = [
        (
            run.environment.world_size,
            run.environment.data_ranks,
            run.ranks[0].steps[run.steps[0]].microbatches,
        )
        for run in runs
    ]
    words = ("the number of ranks", "the number of data-parallel ranks", "the number of micro-batches")
    for index in (1, 2, 0):
        for which, own in enumerate(sizes):
            if own[index]:
                name = f"{words[index]} of {runs[which].name}"
                causes.setdefault(float(own[index]), name)
                causes.setdefault(1 / own[index], f"one divided by {name}")
    for run in runs:
        for axis in filter(None, run.environment.settings.get("mesh", "").split(", ")):
            name, _, size = axis.partition("=")
            causes.setdefault(float(size), f"the size of mesh axis {name} of {run.name}")
            causes.setdefault(1 / float(size), f"one divided by the size of mesh axis {name} of {run.name}")
    causes.pop(1.0, None)
    return causes


def nearest(times: float, causes: Mapping[float, str]) -> tuple[float, str]:
    """The first cause whose factor `times` is close to, with its words; 0 and empty where there is none."""
    return next(((size, words) for size, words in causes.items() if abs(times / size - 1) < CLOSE), (0.0, ""))


def _factors(
    place: WrongTensor, wrong: Sequence[Off], offs: Sequence[Off], runs: tuple[RecordedRun, RecordedRun]
) -> list[str]:
    first = _at(place, wrong)
    times = factor(first.first.sketch, first.second.sketch) if first else None
    if first is None or times is None:
        return []
    one, two = first.first.sketch, first.second.sketch
    if np.linalg.norm(two - times * one) > EXPLAINED * np.linalg.norm(two - one):
        return []
    _, near = nearest(times, candidates(runs))
    sentences = [f"It is {times:.4g} times as large in {runs[1].name}" + (f": {near}." if near else ".")]
    if near and place.kind in (layout.GRADIENT, layout.OUTPUT_GRADIENT):
        sentences.append("A sum in place of a mean over ranks or micro-batches (or the reverse) does this.")
    kind = [off for off in offs if off.key[0] == layout.GRADIENT]
    same = [factor(off.first.sketch, off.second.sketch) for off in kind]
    if (
        place.kind == layout.GRADIENT
        and len(kind) > 1
        and all(one and abs(one / times - 1) < CLOSE for one in same)
    ):
        sentences.append("Every gradient has the same factor: loss scaling, averaging or clipping.")
    return sentences


def _at(place: WrongTensor, wrong: Sequence[Off]) -> Off | None:
    return next((off for off in wrong if off.key == (place.kind, place.owner, place.place)), None)


def _start(place: WrongTensor) -> list[str]:
    if place.kind != layout.START:
        return []
    begin = "The runs begin with other weights: load the same in both, or draw them before the model is cut"
    return [f"{begin}, because a cut tensor draws other random numbers."]


def _not_updated(
    place: WrongTensor, wrong: Sequence[Off], runs: tuple[RecordedRun, RecordedRun]
) -> list[str]:
    """Whether one run has left a parameter as it was: before this update it was equal in both."""
    off = _at(place, wrong)
    before = _before(runs[0], place) if off and place.kind == layout.UPDATED else None
    if off is None or before is None:
        return []
    kept = [
        run.name
        for run, after in zip(runs, (off.first, off.second), strict=True)
        if distance(before, after) <= KEPT * off.difference
    ]
    return [
        f"{name} leaves the parameter as it was: its optimizer has other tensors than the model, "
        "none for this parameter, or a learning rate of 0."
        for name in kept
    ]


def _before(run: RecordedRun, place: WrongTensor) -> WholeTensor | None:
    """The parameter ahead of the update, as it was recorded last."""
    earlier = [step for step in run.steps if step < place.step]
    if earlier:
        return run.whole(earlier[-1]).get((layout.UPDATED, place.owner, place.place))
    return run.whole(place.step).get((layout.START, place.owner, place.place))


def _copies(place: WrongTensor) -> list[str]:
    if "copy" not in place.share:
        return []
    ranks = ", ".join(map(str, place.ranks))
    return [f"The copies on the ranks of one run differ: rank {ranks} is stale or was not reduced."]


def _arguments(place: WrongTensor, settings: Sequence[Setting]) -> list[str]:
    """Arguments of the module, or of the optimizer where an update is wrong, that differ."""
    sentences = []
    for setting in settings:
        own = setting.name.startswith(f"{place.owner or 'the model'} (")
        optimizer = place.kind == layout.UPDATED and setting.name.startswith(("optimizer", "learning rates"))
        if own or optimizer:
            verb = "differ" if setting.name.startswith("learning rates") else "differs"
            sentences.append(f"{setting.name} {verb}: {setting.first} against {setting.second}.")
    return sentences


def _dropout(place: WrongTensor, runs: tuple[RecordedRun, RecordedRun]) -> list[str]:
    kinds: list[Mapping[str, str]] = [
        {module.path: f"{module.kind} {module.arguments}" for module in run.environment.modules}
        for run in runs
    ]
    mine = kinds[0].get(place.owner, "")
    if place.kind != layout.OUTPUT or "Dropout" not in mine or mine != kinds[1].get(place.owner, mine):
        return []
    return ["It is a dropout: layouts and devices draw its random masks differently, or it is lost."]


def _coarse(place: WrongTensor, settings: Sequence[Setting], begin: int) -> list[str]:
    """What a coarser dtype or multiplication does, from the first step on."""
    share = place.difference / place.norm if place.norm else 0.0
    dtypes = [setting for setting in settings if setting.name.endswith(("dtypes", "matmul precision"))]
    shown = [f"{setting.name}: {setting.first} against {setting.second}." for setting in dtypes]
    if place.step == begin and place.kind == layout.OUTPUT and COARSE[0] <= share <= COARSE[1]:
        size = f"The difference is {share:.1e} of the tensor, the size of bfloat16's or TF32's rounding."
        return [size, *shown]
    return shown if place.kind in (layout.START, layout.OUTPUT) else []


def _loss(place: WrongTensor, offs: Sequence[Off], runs: tuple[RecordedRun, RecordedRun]) -> list[str]:
    if place.kind != LOSS:
        return []
    outputs = any(off.key[0] == layout.OUTPUT for off in offs)
    right = "Every output is right" if outputs else "Nothing before it is off"
    sentences = [f"{right}: look at the labels (shift, padding), the loss's reduction and its scaling."]
    one, two = (run.loss(place.step) for run in runs)
    times = two / one if one else 0.0
    _, near = nearest(times, candidates(runs) | _samples(runs))
    if near:
        scaled = f"The loss is {times:.4g} times as large in {runs[1].name}: {near}."
        sentences.insert(0, f"{scaled} A sum in place of a mean (or the reverse) does this.")
    return sentences


def _samples(runs: tuple[RecordedRun, RecordedRun]) -> dict[float, str]:
    """The numbers of samples of a rank's micro-batch and of a rank, as factors of a loss."""
    causes: dict[float, str] = {}
    for run in runs:
        step = run.ranks[0].steps[run.steps[0]]
        for size, words in (
            (step.samples, "the samples of a rank"),
            (step.samples / max(1, step.microbatches), "the samples of a micro-batch"),
        ):
            if size > 1:
                causes.setdefault(float(size), f"{words} of {run.name}")
                causes.setdefault(1 / size, f"one divided by {words} of {run.name}")
    return causes
