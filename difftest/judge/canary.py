"""The canary: damage to a copy of a run that agrees, which the same judge must notice.

A judge that notices nothing is as silent as a program without faults. So each campaign puts errors of known
size into copies of its own runs, and compares these as it compares every run. An error of `LOUD` times the
rounding noise must be reported, at its tensor; one of `QUIET` times must not. Further damage must be reported
by the check that it is for, such as a tensor that is missing, a rank with other bits, or a run that failed.

The noise of an element is computed here and not by `noise.floor`, which may be what is broken.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layout import ALONE, Mesh, local_slices, replica_groups
from difftest.judge.comparator import Comparison, compare
from difftest.judge.measured import Key
from difftest.judge.noise import NATIVE_MOST
from difftest.judge.outcome import PARTLY_DETERMINISTIC, Failure, Outcome, Sharded, Symptom, Trace
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


class Damage(NamedTuple):
    """Damage to a run: what is compared, and in words what it is, by the check that must report it.

    Where the check is empty, the runs must not agree.
    """

    expected: Outcome
    actual: Outcome
    words: Mapping[str, str]
    again: Outcome | None = None


def sings(index: int) -> bool:
    """Whether the case with this index in its campaign has a canary, whatever ran before it."""
    return index % BESIDE < FIRST or index % EVERY == 0


def heard(case: Case, backend: str, side: str, truth: Trace, actual: Trace, turn: int) -> str:  # noqa: PLR0913, PLR0917  a run, as `compare`
    """What the judge makes of damaged copies of `actual`, which agrees with `truth`.

    `NOTICED` or `NOTHING_ROUNDS`, or else what it did not notice. The tensors that get errors take turns.
    """

    def judged(damage: Damage) -> Comparison:
        return compare(case, backend, side, damage.expected, damage.actual, damage.again)

    missed = [words for one in _damages(case, truth, actual, turn) for words in _missed(judged(one), one)]
    chosen = errors(case, truth, actual, turn)
    if chosen:
        loud = judged(Damage(truth, with_errors(case, truth, actual, chosen, LOUD), {}))
        reported = {(one.step, one.stage, one.tensor) for one in loud.divergences}
        keys = (error.key for error in chosen if error.key not in reported)
        size = f"an error of {LOUD:g} times the rounding noise"
        missed += [f"{size} in step {step}, {stage}, {name}" for step, stage, name in keys]
    if chosen and inexact(case):
        quiet = judged(Damage(truth, with_errors(case, truth, actual, chosen, QUIET), {}))
        if quiet.verdict != "agree":
            return f"an error of {QUIET:g} times the rounding noise is reported"
    if missed:
        return f"not noticed: {'; '.join(missed)}"
    return NOTICED if chosen else NOTHING_ROUNDS


def _missed(comparison: Comparison, damage: Damage) -> list[str]:
    """What the judge did not notice of some damage, in words."""
    checks = {one.check for one in comparison.divergences} | {
        "" if comparison.verdict != "agree" else "agree"
    }
    return [words for check, words in damage.words.items() if check not in checks]


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
        actual = _with(actual, error.key, dataclasses.replace(tensor, pieces=pieces))
    return actual


def _damages(case: Case, truth: Trace, actual: Trace, turn: int) -> Iterator[Damage]:
    """The damage that a run can have; of a program that which depends on no operator."""
    step = len(actual.steps) - 1
    crash = Failure(symptom=Symptom.CRASH, stage=Stage.UPDATE, step=step, kind="SIGABRT", message="canary")
    yield Damage(truth, crash, {"completion": "a run that crashed"})
    yield Damage(crash, actual, {"": "an oracle that failed"})
    other = dataclasses.replace(actual, environment={**actual.environment, "numbers": "canary"})
    yield Damage(truth, other, {"": "a run of other numbers"})
    if case.model.is_program:
        key = (step, *next(iter(truth.steps[step])))
        yield Damage(truth, _with(actual, key, None), {"shape": "a tensor that is missing"})
    else:
        yield _spoiled(case, truth, actual)
        yield _vain(truth, actual, turn)


def _spoiled(case: Case, truth: Trace, actual: Trace) -> Damage:
    """A run without its last loss, with a value that is not a number, with bits of one rank alone, and moved.

    The right run is its second one.
    """
    spoiled, words, step = actual, {"shape": "a tensor that is missing"}, len(actual.steps) - 1
    _, *places = ([at for at in truth.steps[step] if kind(*at)] for kind in KINDS)
    output, gradient, parameter = ((step, *own[-1]) if own else None for own in places)
    if output and (held := _held(actual, output)) is not None:
        spoiled = _with_element(spoiled, output, held, np.nan)
        words["finite"] = "a value that is not a number"
    if gradient and (held := _held(actual, gradient)) is not None:
        tensor = actual.steps[step][gradient[1:]]
        last = tensor.pieces[held].flat[-1]
        spoiled = _with_element(spoiled, gradient, held, np.nextafter(last, last.dtype.type(np.inf)))
        if actual.environment.get("deterministic") != PARTLY_DETERMINISTIC:
            words["determinism"] = "other bits in a second run"
        if any(
            held in ranks and len(ranks) > 1 for ranks in replica_groups(tensor.placements, case.layout.mesh)
        ):
            words["replicas"] = "a rank with other bits"
    if parameter and actual.events.device:
        tensor = actual.steps[step][parameter[1:]]
        spoiled = _with(spoiled, parameter, dataclasses.replace(tensor, devices=("canary",)))
        words["on_device"] = "a tensor on another device"
    return Damage(truth, _with(spoiled, (step, Stage.FORWARD, "loss"), None), words, again=actual)


def _vain(truth: Trace, actual: Trace, turn: int) -> Damage:
    """Runs that agree, and whose agreement means nothing: one reason for it, by turns."""
    if turn % 3 == 0:
        return Damage(_zeros(truth), _zeros(actual), {"": "zeros everywhere"})
    words, changes = (
        ("values out of the range of the dtype", {"in_range": False}),
        ("a run of torch's own that no rounding explains", {"native": 2.0 * NATIVE_MOST}),
    )[turn % 3 - 1]
    events = msgspec.structs.replace(truth.events, **changes)
    return Damage(dataclasses.replace(truth, events=events), actual, {"": words})


def _held(actual: Trace, key: Key) -> int | None:
    """The last rank that holds values of a tensor."""
    tensor = actual.steps[key[0]].get(key[1:])
    pieces = tensor.pieces if tensor else {}
    return next(
        (rank for rank, piece in reversed(list(pieces.items())) if piece.size and piece.dtype.kind == "f"),
        None,
    )


def _zeros(trace: Trace) -> Trace:
    def zero(tensor: Sharded) -> Sharded:
        pieces = {rank: np.zeros_like(piece) for rank, piece in tensor.pieces.items()}
        return dataclasses.replace(tensor, pieces=pieces)

    steps = tuple({key: zero(tensor) for key, tensor in step.items()} for step in trace.steps)
    return dataclasses.replace(trace, steps=steps)


def _with_element(trace: Trace, key: Key, rank: int, value: Any) -> Trace:  # noqa: ANN401  a number of numpy's
    """The trace with another last element in the piece of one rank."""
    tensor = trace.steps[key[0]][key[1:]]
    piece = np.array(tensor.pieces[rank])
    piece.flat[-1] = value
    return _with(trace, key, dataclasses.replace(tensor, pieces={**tensor.pieces, rank: piece}))


def _with(trace: Trace, key: Key, tensor: Sharded | None) -> Trace:
    """The trace with another tensor, or without it."""
    step, *_ = key
    kept = {at: one for at, one in trace.steps[step].items() if tensor or at != key[1:]}
    changed = kept if tensor is None else {**kept, key[1:]: tensor}
    return dataclasses.replace(trace, steps=(*trace.steps[:step], changed, *trace.steps[step + 1 :]))
