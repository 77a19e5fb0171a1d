"""From what a run reached to what its comparison covered: the case says how the operands were cut."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from difftest.cases import evenness
from difftest.cases.case import Case
from difftest.cases.evenness import ORDER, Evenness
from difftest.cases.parts import parts
from difftest.judge.doubts import compares
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Outcome, Trace
from difftest.judge.reached import ALL_LAYERS, Names
from difftest.judge.stage import Stage
from difftest.records.covered import ByEvenness, Covered

BY_STAGE: Mapping[Stage, Sequence[str]] = {
    Stage.FORWARD: ("forward", "entries"),
    Stage.BACKWARD: ("backward", "differentiated"),
}
"""The fields of `Covered` that a stage's numbers cover."""

COUNTED = frozenset({"agree", "diverge"})
"""The verdicts of comparisons that cover something."""


def covered(
    case: Case, truth: Outcome, outcome: Outcome, verdict: str, measurements: Sequence[Measurement] = ()
) -> Covered:
    """What a comparison of `outcome` with the oracle's `truth` covered.

    The forward of a program is not covered where rounding or undecided elements hide all of its results, nor
    the backward where they hide all gradients.

    A program's operators are as even as their operands, and an ordinary case's as the least even tensor of
    the case. A name that torch_xla counted for the whole backward belongs to the layers to which the oracle's
    run attributes it.
    """
    if verdict not in COUNTED or not isinstance(truth, Trace) or not isinstance(outcome, Trace):
        return Covered()
    oracle, own = truth.events.reached, outcome.events.reached
    dispatched = oracle if own.eager else own
    kinds = evenness.of_operators(case)
    entries = {path: layer.operator for path, layer in case.model.operators.items() if not layer.rejects}
    all_covered = Covered(
        forward=_by_evenness(_cut(case, kinds, dispatched.forward, oracle.forward)),
        backward=_by_evenness(_cut(case, kinds, dispatched.backward, oracle.backward)),
        entries=_by_evenness((kinds[path], name) for path, name in entries.items()),
        differentiated=_by_evenness(
            (kinds[path], name) for path, name in entries.items() if oracle.backward.get(path)
        ),
        rules=own.rules,
        lowered=own.lowered,
        parts=parts(case),
    )
    hidden = _hidden(measurements) if case.model.is_program else ()
    return structs.replace(all_covered, **{name: {} for stage in hidden for name in BY_STAGE[stage]})


def _hidden(measurements: Sequence[Measurement]) -> Iterator[Stage]:
    """The stages of which nothing could have differed."""
    for stage in BY_STAGE:
        own = [m for m in measurements if m.stage == stage and m.tensor != "loss" and m.elements]
        if own and not any(map(compares, own)):
            yield stage


def _cut(
    case: Case, kinds: Mapping[str, Evenness], names: Mapping[str, Names], oracle: Mapping[str, Names]
) -> Iterator[tuple[Evenness, str]]:
    """Every name with how its operands were cut; `oracle` has the oracle's names by layer.

    What a program dispatches outside of its layers is the training loop's, and left out.
    """
    if not kinds:
        whole_case = evenness.of_case(case)
        yield from ((whole_case, name) for name in names.get(ALL_LAYERS, ()))
        return
    for path, kind in kinds.items():
        yield from ((kind, name) for name in names.get(path, ()))
    least = min(kinds.values(), key=ORDER.index)
    loop = {*oracle.get(ALL_LAYERS, ())}
    for name in names.get(ALL_LAYERS, ()):
        of_layers = [kind for path, kind in kinds.items() if {name, _viewed(name)} & {*oracle.get(path, ())}]
        yield from ((kind, name) for kind in of_layers or ([] if _viewed(name) in loop else [least]))


def _viewed(name: str) -> str:
    """The operator that makes a view where functionalization dispatches one that makes a copy."""
    return name if name == "_to_copy" else name.removesuffix("_copy")


def _by_evenness(names: Iterator[tuple[Evenness, str]]) -> ByEvenness:
    held: dict[Evenness, set[str]] = defaultdict(set)
    for kind, name in names:
        held[kind].add(name)
    return {kind: tuple(sorted(held[kind])) for kind in ORDER if kind in held}
