"""What a framework lacks for a program: a refusal is a line of the support table, never a finding.

A framework that says that it has no such operator, or none for this dtype or these placements, computes
nothing wrong. An error inside of it is no refusal, whatever words are in its message. What a framework lacks
for any other case is a finding, except for a deterministic algorithm, which we ask for and torch documents.
"""

import re
from collections.abc import Iterable

import msgspec

from difftest.cases.case import Case
from difftest.judge import checks
from difftest.judge.divergence import Divergence, without_numbers, without_operators
from difftest.judge.outcome import NO_DETERMINISTIC, Failure, Outcome, Symptom

MOST_CHARACTERS = 160
"""How much of a reason is kept."""

INTERNAL = re.compile(
    r"INTERNAL ASSERT FAILED|please report (a bug|this)|Check failed: |\bINTERNAL: |instances of '"
    r"|has no attribute|Attempting to broadcast a dimension"
)
"""What an error inside of a framework says, or a mistake in Python; it is no refusal."""

REFUSALS = re.compile(
    r"\bUNIMPLEMENTED: |\bis not implemented\b|\bnot (yet )?(implemented|supported)\b|\bunsupported\b"
    r"|no sharding (rule|strategy)|does not have a sharding|Could not run '[^']*' with arguments from the"
)
"""What a refusal says that the worker recorded as an exception."""

_OPERATOR = re.compile(r"\baten(?:\.|::)(\w+(?:\.\w+)?)")


class Lack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend lacks for an operator of a program.

    `operator` is the program's operator; empty where the run did not say which one it was. `overload` is the
    aten operator or the kernel that the framework names, without `aten`; empty where it names none. `reason`
    is the framework's message without numbers and operators.
    """

    operator: str
    reason: str
    overload: str = ""


def lack_of(case: Case, divergence: Divergence, outcome: Outcome) -> Lack | None:
    """What `divergence`, which a run of `case` showed, says that the backend lacks.

    None where it says something else.
    """
    program = case.model.is_program
    if isinstance(outcome, Failure):
        counts = program or NO_DETERMINISTIC in outcome.message
        return _refused(case, outcome) if counts and checks.load(divergence.check).TRAITS.run_failed else None
    if not program or not checks.load(divergence.check).TRAITS.lacks_capability:
        return None
    named = _OPERATOR.search(divergence.cause)
    reason = without_numbers(without_operators(divergence.cause))
    return Lack(operator=_sole(case), overload=named[1] if named else "", reason=reason[:MOST_CHARACTERS])


def findings_and_lacks(
    case: Case, divergences: Iterable[Divergence], outcome: Outcome
) -> tuple[tuple[Divergence, ...], tuple[Lack, ...]]:
    """The divergences that are faults, and what the others say that the backend lacks."""
    faults, lacks = list[Divergence](), dict[Lack, None]()
    for divergence in divergences:
        if lack := lack_of(case, divergence, outcome):
            lacks[lack] = None
        else:
            faults.append(divergence)
    return tuple(faults), tuple(lacks)


def _refused(case: Case, failure: Failure) -> Lack | None:
    """What a run that ended with an exception says that the framework lacks; None for an error inside it."""
    message = failure.message
    refuses = failure.symptom is Symptom.CAPABILITY or (
        failure.symptom is Symptom.EXCEPTION and REFUSALS.search(message)
    )
    if not refuses or INTERNAL.search(message):
        return None
    named, operator = _OPERATOR.search(message), failure.operator or _sole(case)
    kernel = message.split()[0] if NO_DETERMINISTIC in message else ""
    reason = without_numbers(without_operators(message, operator))
    return Lack(
        operator=operator,
        overload=named[1] if named else kernel,
        reason=(reason or failure.kind)[:MOST_CHARACTERS],
    )


def _sole(case: Case) -> str:
    """The program's operator where it has one alone; else empty."""
    return case.model.layers[0].title if case.model.is_program and len(case.model.layers) == 1 else ""
