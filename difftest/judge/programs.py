"""Whose fault a difference in a program is: which comes first, and the operator that it is named by."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.operator import full_name
from difftest.judge import checks
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import STAGES, Stage

LOST_ALIAS = "lost alias"
"""The nature of a tensor that an operator changed elsewhere, in a view of it, and not here."""

SHAPED_BY_VALUES = frozenset({"argwhere", "nonzero", "nonzero_static"})
"""Operators whose result has a shape that depends on values: other values are another shape."""

LAST = 10**6
"""The place of what belongs to no operator: the loss, which adds all results."""


def operator_of(case: Case, stage: Stage, tensor: str) -> str:
    """The operator of a program that a wrong tensor is named by; empty for the loss.

    An operand or a result that an operator writes into is that operator's: it is read after the last one.
    """
    layers = dict(walk(case.model.layers))
    writers = [path for path, layer in layers.items() if tensor in _changed(path, layer)]
    own = tensor.partition(".")[0]
    path = writers[0] if writers and stage is not Stage.BACKWARD else own
    return layers[path].title if path in layers else ""


def _changed(path: str, layer: Layer) -> list[str]:
    """The full names of the tensors that the operator at `path` writes into."""
    return [full_name(path, name) for name in layer.changes()]


def in_order(case: Case, divergences: Iterable[Divergence]) -> tuple[Divergence, ...]:
    """A program's divergences, complete, causes first; what torch leaves undefined comes last."""
    shown = list(divergences)
    wrong = {one.tensor for one in shown if one.stage is not Stage.BACKWARD}
    complete = [_undefined(case, _named(case, one, wrong)) for one in shown]
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


def _named(case: Case, divergence: Divergence, wrong: Collection[str]) -> Divergence:
    """The divergence with its operator, with which the nature of wrong tensors begins.

    `wrong` are the results and the operands that diverge.
    """
    if not divergence.tensor:
        return divergence
    numbers = checks.load(divergence.check).TRAITS.uses_numbers and divergence.stage is not Stage.BACKWARD
    if numbers and (view := _lost_alias(case, divergence.tensor, wrong)):
        return msgspec.structs.replace(divergence, operator=view, nature=f"{view}, {LOST_ALIAS}")
    operator = operator_of(case, divergence.stage, divergence.tensor)
    nature = ", ".join(filter(None, (operator, divergence.nature)))
    return msgspec.structs.replace(divergence, operator=operator, nature=nature)


def _lost_alias(case: Case, tensor: str, wrong: Collection[str]) -> str:
    """The operator that made a view of `tensor` which was changed later and is right; empty if there is none.

    Were `tensor` wrong before, what was made of it would be wrong too.
    """
    layers = dict(walk(case.model.layers))
    for path, layer in layers.items():
        for changed in _changed(path, layer):
            maker, _, own = changed.partition(".")
            if own.startswith("output") and changed not in wrong and tensor in _origins(layers, maker):
                return layers[maker].title
    return ""


def _origins(layers: Mapping[str, Layer], path: str) -> Iterator[str]:
    """The full names of the tensors that the results of the operator at `path` are made of."""
    for own in layers[path].references():
        yield (name := full_name(path, own))
        if name.partition(".")[2].startswith("output"):
            yield from _origins(layers, name.partition(".")[0])


def _undefined(case: Case, divergence: Divergence) -> Divergence:
    """The divergence; one of numbers that torch's documentation leaves open says so."""
    check = checks.load(divergence.check)
    traits, counted = check.TRAITS, divergence.operator in SHAPED_BY_VALUES
    by_values = traits.uses_numbers or traits.takes_two_runs or (traits.sees_sizes and counted)
    numbers = divergence.tensor and by_values
    if not case.model.undefined or not numbers:
        return divergence
    return msgspec.structs.replace(divergence, symptom=Symptom.UNDEFINED, left_open=case.model.undefined)
