"""The canary: damage to a copy of a run that agrees, which the same judge must notice.

A judge that notices nothing is as silent as a program without faults. So each campaign puts errors of known
size into copies of its own runs, and compares these as it compares every run. An error of `LOUD` times the
rounding noise must be reported, at its tensor; one of `QUIET` times must not. Further damage must be reported
by the check that it is for, such as a tensor that is missing, a rank with other bits, or a run that failed.

The noise of an element is computed here and not by `noise.floor`, which may be what is broken.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layout import ALONE, Mesh, local_slices
from difftest.judge import checks
from difftest.judge.comparator import Comparison, compare
from difftest.judge.measured import Key
from difftest.judge.noise import NATIVE_MOST
from difftest.judge.outcome import Failure, Outcome, Sharded, Symptom, Trace
from difftest.judge.spoiled import with_tensor
from difftest.judge.stage import Stage

LOUD, QUIET = 16.0, 0.1
"""The sizes of errors that must be reported and must not, in units of the rounding noise."""

FIRST, EVERY = 2, 16
"""A canary is in the first cases of a campaign, and then in one of so many."""

BESIDE = 10**9
"""Cases beside a campaign's own, such as programs, are counted from multiples of this."""

NOTICED, NOTHING_ROUNDS = "noticed", "noticed; nothing rounds"
"""What a canary shows of a judge that is right; the second where no tensor of the run has noise."""

KINDS: tuple[Callable[[Stage, str], bool], ...] = (
    lambda stage, name: stage is Stage.FORWARD and name == "loss",
    lambda stage, name: stage is Stage.FORWARD and name != "loss",
    lambda stage, _name: stage is Stage.BACKWARD,
    lambda stage, _name: stage is Stage.UPDATE,
)
"""The kinds of tensors that each get an error: the loss, outputs, gradients, parameters."""


class Error(NamedTuple):
    """An element that gets an error, and the rounding noise of this element with the error's sign."""

    key: Key
    element: tuple[int, ...]
    noise: float


class Spoiled(NamedTuple):
    """Damaged runs: what is compared, and in words what the damage is, by the check that must report it.

    Where the check is empty, the runs must not agree.
    """

    expected: Outcome
    actual: Outcome
    words: Mapping[str, str]
    again: Outcome | None = None


def is_due(index: int) -> bool:
    """Whether the case with this index in its campaign has a canary, whatever ran before it."""
    return index % BESIDE < FIRST or index % EVERY == 0


def watch(case: Case, backend: str, side: str, truth: Trace, actual: Trace, turn: int) -> str:  # noqa: PLR0913, PLR0917  a run, as `compare`
    """What the judge makes of damaged copies of `actual`, which agrees with `truth`.

    `NOTICED` or `NOTHING_ROUNDS`, or else what it did not notice. The tensors that get errors take turns.
    """

    def judged(spoiled: Spoiled) -> Comparison:
        return compare(case, backend, side, spoiled.expected, spoiled.actual, spoiled.again)

    missed = [
        words
        for spoiled in _spoiled(case, truth, actual, turn)
        for words in _missed(judged(spoiled), spoiled)
    ]
    chosen = errors(case, truth, actual, turn)
    if chosen:
        loud = judged(Spoiled(truth, with_errors(case, truth, actual, chosen, LOUD), {}))
        reported = {(shown.step, shown.stage, shown.tensor) for shown in loud.divergences}
        keys = (error.key for error in chosen if error.key not in reported)
        size = f"an error of {LOUD:g} times the rounding noise"
        missed += [f"{size} in step {step}, {stage}, {name}" for step, stage, name in keys]
    if chosen and inexact(case):
        quiet = judged(Spoiled(truth, with_errors(case, truth, actual, chosen, QUIET), {}))
        if quiet.verdict != "agree":
            return f"an error of {QUIET:g} times the rounding noise is reported"
    if missed:
        return f"not noticed: {'; '.join(missed)}"
    return NOTICED if chosen else NOTHING_ROUNDS


def _missed(comparison: Comparison, spoiled: Spoiled) -> list[str]:
    """What the judge did not notice of some damage, in words."""
    reported = {shown.check for shown in comparison.divergences}
    if comparison.verdict != "agree":
        reported.add("")
    return [words for check, words in spoiled.words.items() if check not in reported]


def errors(case: Case, truth: Trace, actual: Trace, turn: int) -> list[Error]:
    """The elements of a run that get errors: one of each kind of tensor, or one in all for a program.

    Errors of both signs take turns. There is none where values leave the range of the dtype, nor in a program
    of very different magnitudes, whose noise is another one.
    """
    if not truth.events.in_range or (case.model.is_program and case.data.regime == "extreme"):
        return []
    chosen = list[Error]()
    for number, kind in enumerate(KINDS[1:3] if case.model.is_program else KINDS):
        places = [
            (step, stage, name)
            for step, tensors in enumerate(truth.steps)
            for stage, name in tensors
            if kind(stage, name)
        ]
        for offset in range(len(places)):
            key = places[-1 - (turn + offset) % len(places)]
            if error := _error(key, truth, actual, case.layout.mesh, 1.0 - 2.0 * ((turn + number) % 2)):
                chosen.append(error)
                break
    return chosen[turn % len(chosen) :][:1] if case.model.is_program and chosen else chosen


def _error(key: Key, truth: Trace, actual: Trace, mesh: Mesh, sign: float) -> Error | None:
    """An element of a tensor whose own noise is that of the whole tensor; None where nothing rounds."""
    step, at = key[0], key[1:]
    exact, own = truth.steps[step][at], actual.steps[step].get(at)
    if exact.is_discrete or own is None or own.misfits(mesh) or own.shape != exact.shape:
        return None
    deviation = truth.noise[step][at].full(ALONE)
    kept = np.isfinite(deviation) & (deviation > 0.0) & np.isfinite(exact.full(ALONE))
    if not kept.any() or any(piece.dtype.kind != "f" for piece in own.pieces.values()):
        return None
    whole = float(np.sqrt(np.mean(deviation[np.isfinite(deviation)] ** 2)))
    far = np.where(kept, np.abs(np.log(np.where(kept, deviation, 1.0)) - np.log(whole)), np.inf)
    element = tuple(int(at) for at in np.unravel_index(int(np.argmin(far)), deviation.shape))
    return Error(key, element, sign * max(float(deviation[element]), whole))


def with_errors(case: Case, truth: Trace, actual: Trace, chosen: Sequence[Error], size: float) -> Trace:
    """The run with errors of `size` times the noise, equal on all ranks that hold the element."""
    for error in chosen:
        step, stage, name = error.key
        tensor = actual.steps[step][stage, name]
        value = truth.steps[step][stage, name].full(ALONE)[error.element] + size * error.noise
        pieces = dict(tensor.pieces)
        for rank, piece in tensor.pieces.items():
            own = local_slices(tensor.shape, tensor.placements, case.layout.mesh, rank)
            at = [place - part.start for part, place in zip(own, error.element, strict=True)]
            if all(0 <= place < extent for place, extent in zip(at, piece.shape, strict=True)):
                pieces[rank] = np.array(piece)
                pieces[rank][tuple(at)] = value
        actual = with_tensor(actual, error.key, dataclasses.replace(tensor, pieces=pieces))
    return actual


def _spoiled(case: Case, truth: Trace, actual: Trace, turn: int) -> Iterator[Spoiled]:
    """Runs with the damage that the checks declare, and runs whose agreement would mean nothing.

    All damage that leaves a run is done to one copy, whose second run is the right one.
    """
    spoiled, words = actual, dict[str, str]()
    for name, check in checks.load_all().items():
        damage = check.TRAITS.damage
        if damage is None:
            continue
        match damage.spoil(case, spoiled):
            case Failure() as failure:
                yield Spoiled(truth, failure, {name: damage.words})
            case Trace() as spoiled:
                words[name] = damage.words
    yield Spoiled(truth, spoiled, words, again=actual)
    failed = Failure(
        symptom=Symptom.EXCEPTION, stage=Stage.BUILD, step=0, kind="RuntimeError", message="canary"
    )
    yield Spoiled(failed, actual, {"": "an oracle that failed"})
    other = dataclasses.replace(actual, environment={**actual.environment, "numbers": "canary"})
    yield Spoiled(truth, other, {"": "a run of other numbers"})
    if not case.model.is_program:
        yield _vain(truth, actual, turn)


def _vain(truth: Trace, actual: Trace, turn: int) -> Spoiled:
    """Runs that agree, and whose agreement means nothing: one reason for it, by turns."""
    if turn % 3 == 0:
        return Spoiled(_zeros(truth), _zeros(actual), {"": "zeros everywhere"})
    words, changes = (
        ("values out of the range of the dtype", {"in_range": False}),
        ("a run of torch's own that no rounding explains", {"native": 2.0 * NATIVE_MOST}),
    )[turn % 3 - 1]
    events = msgspec.structs.replace(truth.events, **changes)
    return Spoiled(dataclasses.replace(truth, events=events), actual, {"": words})


def _zeros(trace: Trace) -> Trace:
    def zero(tensor: Sharded) -> Sharded:
        pieces = {rank: np.zeros_like(piece) for rank, piece in tensor.pieces.items()}
        return dataclasses.replace(tensor, pieces=pieces)

    steps = tuple({key: zero(tensor) for key, tensor in step.items()} for step in trace.steps)
    return dataclasses.replace(trace, steps=steps)
