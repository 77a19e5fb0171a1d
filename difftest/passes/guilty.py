"""The first pass after which a module computes other numbers than before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from difftest.ground.errors import UsageError
from difftest.passes.arrays import Array, dtype_of
from difftest.passes.evaluate import evaluate
from difftest.passes.hlo import Shape, UnreadableError
from difftest.passes.module_runs import ModuleRun
from difftest.passes.right_results import RightResults
from difftest.passes.shardings import HloSharding, arguments_of, results_of
from difftest.passes.snapshots import Dump, Snapshot, guilty_name
from difftest.records.evidence import NO_PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which pass is at fault.

    `kind` is `pass`, `crash` (the pass did not end), `code generation` (wrong after the last pass),
    `frontend` (XLA computes what it was given) or `unclear`. `reason` says it in a sentence, and `control`
    what was right. `compiled` is the name of the module, `before` is right and `after` is wrong. `evaluated`
    of `snapshots` were evaluated.
    """

    kind: str
    reason: str
    guilty: str = ""
    pipeline: str = ""
    compiled: str = ""
    before: Snapshot | None = None
    after: Snapshot | None = None
    call: ModuleRun | None = None
    expected: tuple[Array, ...] = ()
    actual: tuple[Array, ...] = ()
    evaluated: int = 0
    snapshots: int = 0
    control: str = ""

    @property
    def accuses(self) -> bool:
        """Whether XLA is at fault."""
        return self.kind not in NO_PASS

    @property
    def name(self) -> str:
        """What lists of faults call it: the pass, or what is at fault instead."""
        return self.guilty or self.kind


def judge(dump: Dump, calls: Sequence[ModuleRun], *, strict: bool = False) -> Verdict:
    """The verdict about a module: that of the first call on which its passes disagree.

    It is `strict` about single roundoffs and the signs of zeros. Only numbers of XLA's own accuse then: a
    snapshot must have exactly these.
    """
    verdicts = list[Verdict]()
    for call in calls:
        verdicts.append(_judge(dump, call, strict=strict))
        if verdicts[-1].accuses:
            return verdicts[-1]
    decided = [each for each in verdicts if each.kind != "unclear"]
    return (decided or verdicts or [Verdict(kind="unclear", reason="there are no numbers to run it on")])[0]


UNEVALUATED = (UsageError, ArithmeticError, ValueError, IndexError, TypeError, KeyError)
"""What an evaluation raises that cannot be done."""


def _judge(dump: Dump, call: ModuleRun, *, strict: bool) -> Verdict:
    common: dict[str, Any] = {"compiled": dump.name, "call": call, "snapshots": len(dump.snapshots)}
    try:
        truth = RightResults.of(dump.first, call, strict=strict)
    except UNEVALUATED as error:
        return Verdict(kind="unclear", reason=f"the first module cannot be evaluated: {error}", **common)
    common["expected"] = truth.expected
    is_wrong = bool(call.results) and truth.differs([[result] for result in call.results])
    if not is_wrong and (call.results or strict):
        reason = f"with {call.numbers}, XLA computes what the first module says"
        return Verdict(kind="frontend", reason=reason, actual=call.results, **common)
    return _search(dump, call, truth, common)


def _search(dump: Dump, call: ModuleRun, truth: RightResults, common: Mapping[str, Any]) -> Verdict:
    """The first snapshot that is wrong, after one that is right."""
    right, evaluated, unread, layout = dump.first, 0, list[str](), EntryLayout()
    for snapshot in dump.snapshots:
        layout = layout.at(snapshot)
        try:
            computed = layout.results(snapshot, call.arguments, truth.shapes)
        except UNEVALUATED as error:
            unread.append(f"{snapshot.file}: {error}")
            continue
        evaluated += 1
        if truth.differs(computed):
            if snapshot is dump.first:
                reason = "evaluated in its own precision, the first module is wrong already"
                return Verdict(kind="unclear", reason=reason, evaluated=1, **common)
            return _accused(right, snapshot, computed, evaluated, unread, common)
        right, unread = snapshot, []
    but = f"; not evaluated: {unread[0]}" if unread else ""
    if call.results:  # which are wrong
        reason = f"after the last pass the module is right, and what XLA made of it is not{but}"
        kind = "unclear" if unread else "code generation"
        return Verdict(kind=kind, reason=reason, **{**common, "actual": call.results, "evaluated": evaluated})
    reason = f"with {call.numbers}, no pass changes the result{but}"
    return Verdict(kind="unclear" if unread else "frontend", reason=reason, evaluated=evaluated, **common)


def _accused(  # noqa: PLR0913, PLR0917  what a verdict holds
    right: Snapshot,
    wrong: Snapshot,
    computed: Sequence[Sequence[Array]],
    evaluated: int,
    unread: Sequence[str],
    common: Mapping[str, Any],
) -> Verdict:
    """The verdict about the pass between two snapshots; those between them were not evaluated."""
    call, actual = common["call"], tuple(each[0] for each in computed)
    name = guilty_name(right, wrong)
    control = f"with {call.numbers}, the module is right after {right.after or 'the frontend'}"
    same = bool(call.results) and all(map(_close, actual, call.results))
    if call.results:
        control += f", and the wrong numbers are {'the same as' if same else 'others than'} XLA's own"
    between = f", or a pass before it: {unread[0]}" if unread else ""
    return Verdict(
        kind="unclear" if unread else "pass",
        reason=f"the module is right before {name} and wrong after it{between}",
        guilty="" if unread else name,
        pipeline=wrong.pipeline,
        before=right,
        after=wrong,
        actual=actual,
        evaluated=evaluated,
        control=control,
        **common,
    )


def _close(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool(
        np.allclose(first.astype(complex), second.astype(complex), rtol=1e-3, atol=1e-5, equal_nan=True)
    )


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """How the entry's parameters and results are cut, as of the last snapshot that has them whole."""

    inputs: tuple[HloSharding, ...] = ()
    outputs: tuple[HloSharding, ...] = ()
    whole: tuple[tuple[int, ...], ...] = ()

    def at(self, snapshot: Snapshot) -> "EntryLayout":
        """The layout after another snapshot: its shardings, while its parameters and results are whole."""
        try:
            entry = snapshot.module.entry
            parts = entry.result.shape.parts or (entry.result.shape,)
            dims = (*(parameter.shape.dims for parameter in entry.parameters), *(part.dims for part in parts))
            annotated = any("sharding" in each.attributes for each in (*entry.parameters, entry.result))
            if self.whole and not (annotated and dims == self.whole):
                return self
            return EntryLayout(snapshot.inputs, snapshot.outputs, dims)
        except UnreadableError:
            return self

    def results(
        self, snapshot: Snapshot, arguments: Sequence[Array], shapes: Sequence[Shape]
    ) -> list[list[Array]]:
        """The results of a snapshot, each once for every copy."""
        module = snapshot.module
        held = [
            each.astype(dtype_of(p.shape.type, wide=False))
            for each, p in zip(arguments, module.entry.parameters, strict=True)
        ]
        made = evaluate(module, arguments_of(module, held, self.inputs))
        return results_of(module, made, shapes, self.outputs)
