"""Tensors have the oracle's shapes, the case's dtype, and the placements of the layout.

In a program, operands and results have dtypes of their own.
"""

from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.cases.layout import Placements
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import MismatchFacts, PropertyFacts, RemarkFacts
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.outcome import Failure, Sharded, Symptom, Trace
from difftest.judge.spoiled import Damage, with_tensor
from difftest.judge.stage import Stage


def _incomplete(case: Case, right: Trace) -> Trace:
    """The run without its last loss, or without the first tensor of a program."""
    step = len(right.steps) - 1
    missing = next(iter(right.steps[step])) if case.model.is_program else (Stage.FORWARD, "loss")
    return with_tensor(right, (step, *missing), None)


ORDER = 1
TRAITS = Traits(
    sees_sizes=True,
    scripts={Symptom.MISMATCH: "shape"},
    damage=Damage(words="a tensor that is missing", spoil=_incomplete),
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor that is missing or has a wrong shape, dtype, placement or piece.

    A program has no other tensors than the oracle: an operand may be given a gradient that torch gives none.
    """
    actual = dict(run.tensors())
    for step, stage, name in actual if run.case.model.is_program and run.expected.steps else ():
        if (stage, name) not in run.expected.steps[step]:
            extra = RemarkFacts(remark="is unexpected: the oracle has no such tensor")
            yield run.tensor_divergence(
                "shape", Symptom.MISMATCH, (step, stage, name), extra, nature="unexpected"
            )
    for step, tensors in enumerate(() if isinstance(run.actual, Failure) else run.expected.steps):
        for (stage, name), truth in tensors.items():
            key = (step, stage, name)
            if key not in actual and _is_of_other_rows(run.case, name):
                continue
            if wrong := _wrong(run, key, truth, actual.get(key)):
                nature, facts = wrong
                yield run.tensor_divergence("shape", Symptom.MISMATCH, key, facts, nature=nature)


def _is_of_other_rows(case: Case, name: str) -> bool:
    """Whether ranks that have rows of their own cannot have a tensor of a user's model."""
    return case.layout.data_ranks > 1 and case.model.own is not None and name in case.model.own.of_all_rows()


def _wrong(
    run: MeasuredRun, key: Key, truth: Sharded, tensor: Sharded | None
) -> tuple[str, MismatchFacts] | None:
    """What is wrong, as a nature and as facts; None where nothing is."""
    if tensor is None:
        return "missing", RemarkFacts(remark="is missing")
    if tensor.shape != truth.shape:
        return _property("shape", tensor.shape, truth.shape)
    _, stage, name = key
    dtype = expected_dtype(run, stage, name)
    if dtype and tensor.dtype != dtype:
        return _property("dtype", tensor.dtype, dtype)
    placements = _placements(run, stage, name, truth)
    if placements is not None and tensor.placements != placements:
        return _property("placements", _listed(tensor.placements), _listed(placements))
    misfits = tensor.misfits(run.case.layout.mesh)
    return ("pieces", RemarkFacts(remark="; ".join(misfits))) if misfits else None


def _property(name: str, actual: object, expected: object) -> tuple[str, PropertyFacts]:
    return name, PropertyFacts(property=name, actual=str(actual), expected=str(expected))


def _placements(run: MeasuredRun, stage: Stage, name: str, truth: Sharded) -> Placements | None:
    """The placements that a tensor must have; None where nothing says it."""
    if stage is not Stage.UPDATE or name not in run.case.layout.parameters:
        return None
    shape = run.case.model.tensors()[name] if run.case.model.is_program else truth.shape
    return run.case.layout.placements_of(name, shape, truth.shape)


def expected_dtype(run: MeasuredRun, stage: Stage, name: str) -> str:
    """The dtype that a tensor must have; empty where nothing says it.

    A program's results have that of torch's own run, its operands and their gradients that of the case. The
    loss of a program is this project's own, and adds results of several dtypes. What a user's model returns
    has the dtype that its code gives it on one device, and so has what it keeps.
    """
    if run.case.model.own and stage is not Stage.BACKWARD and name in run.expected.events.dtypes:
        return run.expected.events.dtypes[name]
    if not run.case.model.is_program:
        named = run.case.model.dtypes(run.case.dtype) if stage is Stage.UPDATE else {}
        return run.case.loss_dtype if name == "loss" else named.get(name, run.case.dtype)
    if stage is Stage.FORWARD:
        fact = run.expected.events.facts.get(name)
        return fact.dtype if fact else ""
    return run.case.model.dtypes(run.case.dtype)[name]


def _listed(placements: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, placements))})"
