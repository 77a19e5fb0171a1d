"""Wrong numbers, tensor by tensor, with the word for their damage (`difftest.judge.damage`)."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from difftest.cases import numbers
from difftest.judge.damage import (
    LONELY,
    MOVED,
    NOT_UPDATED,
    Floats,
    moved,
    nature,
    not_updated,
    of_program,
    wrong_ranks,
)
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Key, MeasuredRun, beyond, numbers_facts
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

CHANGED = "operand changed"
UNCHANGED = "operand not changed"


def mismatches(
    run: MeasuredRun, check: str, stage: Stage, wanted: Callable[[str], bool] = bool
) -> Iterator[Divergence]:
    """A divergence for each tensor of one stage whose error is beyond rounding, in the order of the run.

    `wanted` chooses tensors by their names, by default all.
    """

    @cache
    def lonely(step: int) -> bool:
        return len(_wrong_ranks(run, step)) == 1 < run.case.world_size

    for key, measurement in run.measured.items():
        if key[1] is stage and wanted(key[2]) and beyond(measurement):
            word = _nature(run, key, lonely)
            wrong = numbers_facts(measurement, word)
            yield run.tensor_divergence(check, Symptom.MISMATCH, key, wrong, measurement.ratio, word)


def _nature(run: MeasuredRun, key: Key, lonely: Callable[[int], bool]) -> str:
    """The word for the damage to one measured tensor, see `difftest.judge.damage`.

    `lonely` is whether a single rank of several holds wrong parameters after a step's update.
    """
    step, stage, name = key
    truth, floors, actual = run.beside(key)
    mesh = run.case.layout.mesh
    if run.case.model.is_program:
        word = _operand(run, name, truth, actual.full(mesh)) if stage is Stage.UPDATE else ""
        return word or of_program(truth, floors, actual, mesh)
    if stage is Stage.FORWARD and step == 0 and _any_moved(run):
        return MOVED
    if stage is Stage.UPDATE and lonely(step):
        return LONELY
    if stage is Stage.UPDATE and _is_not_updated(run, key):
        return NOT_UPDATED
    return nature(truth, floors, actual, mesh, output=stage is Stage.FORWARD)


def _operand(run: MeasuredRun, name: str, truth: Floats, value: Floats) -> str:
    """The word for an operand that should have been changed or left alone; empty where it is neither."""
    initial = numbers.weights(run.case)[name]
    kept, should_be_kept = (np.array_equal(initial, one, equal_nan=True) for one in (value, truth))
    if kept == should_be_kept:
        return ""
    return UNCHANGED if kept else CHANGED


def _is_not_updated(run: MeasuredRun, key: Key) -> bool:
    """Whether a parameter has its value from before the update wherever it is wrong.

    Unknown for buffers, and for modules of the user's, which bring their own initial values.
    """
    step, stage, name = key
    initial = numbers.weights(run.case).get(name)
    earlier = (step - 1, stage, name)
    if initial is None or (step and earlier not in run.measured):
        return False
    truth, floors, actual = run.beside(key)
    mesh = run.case.layout.mesh
    before = run.beside(earlier)[2].full(mesh) if step else initial
    return not_updated(before, truth, floors, actual.full(mesh))


def _any_moved(run: MeasuredRun) -> bool:
    """Whether a parameter was placed with its elements in other places, as the first update shows."""
    for name, initial in numbers.weights(run.case).items():
        if (key := (0, Stage.UPDATE, name)) in run.measured:
            truth, _, actual = run.beside(key)
            if moved(initial, truth, actual.full(run.case.layout.mesh)):
                return True
    return False


def _wrong_ranks(run: MeasuredRun, step: int) -> set[int]:
    """The ranks that hold a wrong piece of any parameter after one step's update."""
    updated = [key for key in run.measured if key[:2] == (step, Stage.UPDATE)]
    return set[int]().union(*(wrong_ranks(*run.beside(key), run.case.layout.mesh) for key in updated))
