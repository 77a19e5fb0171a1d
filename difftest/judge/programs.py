"""Whose fault a difference in a program is: which comes first, and the operator that it is named by."""

from collections.abc import Iterable

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.judge import checks
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import STAGES, Stage

LAST = 10**6
"""The place of what belongs to no operator: the loss, which adds all results."""


def operator_of(case: Case, stage: Stage, tensor: str) -> str:
    """The operator of a program that a wrong tensor is named by; empty for the loss.

    An operand or a result that an operator writes into is that operator's: it is read after the last one.
    """
    layers = dict(walk(case.model.layers))
    writers = [path for path, layer in layers.items() if tensor in _full(path, layer.changes())]
    own = tensor.partition(".")[0]
    path = writers[0] if writers and stage is not Stage.BACKWARD else own
    return layers[path].title if path in layers else ""


def _full(path: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The full names of tensors that the operator at `path` names; its own have no path."""
    return tuple(name if "." in name else f"{path}.{name}" for name in names)


def in_order(case: Case, divergences: Iterable[Divergence]) -> tuple[Divergence, ...]:
    """A program's divergences, complete, causes first; what torch leaves undefined comes last."""
    complete = [_undefined(case, _named(case, one)) for one in divergences]
    return tuple(sorted(complete, key=lambda one: (one.symptom is Symptom.UNDEFINED, *_place(one))))


def _place(divergence: Divergence) -> tuple[int, int, int]:
    """The place of a program's divergence in its run: the first is the cause of those that follow from it.

    Results follow from earlier ones, gradients from those of later operators.
    """
    head = divergence.tensor.partition(".")[0]
    place = -1 if not divergence.tensor else int(head) if head.isdigit() else LAST
    if divergence.stage is Stage.BACKWARD and place >= 0:
        place = LAST - place
    return divergence.step, STAGES.index(divergence.stage), place


def _named(case: Case, divergence: Divergence) -> Divergence:
    """The divergence with its operator, with which the nature of wrong tensors begins."""
    if not divergence.tensor:
        return divergence
    operator = operator_of(case, divergence.stage, divergence.tensor)
    nature = ", ".join(filter(None, (operator, divergence.nature)))
    return msgspec.structs.replace(divergence, operator=operator, nature=nature)


def _undefined(case: Case, divergence: Divergence) -> Divergence:
    """The divergence; one of numbers that torch's documentation leaves open says so."""
    check = checks.load(divergence.check)
    numbers = divergence.tensor and (check.USES_NUMBERS or check.TAKES_TWO_RUNS)
    if not case.model.undefined or not numbers:
        return divergence
    detail = f"{divergence.detail}; torch leaves open: {case.model.undefined}"
    return msgspec.structs.replace(divergence, symptom=Symptom.UNDEFINED, detail=detail)
