"""Findings by cause: many operators and backends share a fault, and a reader wants it once.

The findings that one issue of the ledger covers have one cause. So have failures of one side with the same
message and framework frame, whatever backend or operator ran, and mismatches of programs that look alike in
the same pass of operators that torch makes of the same operators of its own. What torch leaves open for one
reason is one cause. Wrong numbers of any other case have one cause on the backends that show the same fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from difftest.judge.outcome import Symptom
from difftest.judge.programs import LOST_ALIAS
from difftest.records.evidence import WRONG_SIBLINGS
from difftest.records.finding import Finding

Key: TypeAlias = tuple[str, ...]

MOST_NAMED = 8
"""How many operators of a cause a line names."""

HOUSEKEEPING = frozenset({"detach", "clone", "copy_", "_to_copy", "empty", "empty_like", "alias", "view"})
"""Torch's operators that say nothing of what is computed."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Findings with one cause, the first of them first."""

    findings: tuple[Finding, ...]

    @property
    def finding(self) -> Finding:
        """The finding that stands for all."""
        return self.findings[0]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that showed it, sorted; empty outside of programs."""
        return tuple(sorted({name for finding in self.findings for name in finding.operators}))

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends that showed it, sorted."""
        return tuple(sorted({name for finding in self.findings for name in backends(finding)}))

    @property
    def others(self) -> tuple[str, ...]:
        """The fingerprints of its findings beside the first."""
        return tuple(finding.fingerprint for finding in self.findings[1:])

    @property
    def hits(self) -> int:
        """How many cases showed it, each once for every one of its findings."""
        return sum(finding.hits for finding in self.findings)

    @property
    def operators_in_short(self) -> str:
        """The first of its operators, and how many more there are."""
        named, more = self.operators[:MOST_NAMED], len(self.operators) - MOST_NAMED
        return ", ".join((*named, *((f"{more} more",) if more > 0 else ())))


def causes(findings: Iterable[Finding], *, of_programs_alone: bool = False) -> tuple[Cause, ...]:
    """The findings by cause, in the order in which each cause comes first.

    `of_programs_alone` leaves every finding of an ordinary case a cause by itself, as terminals show them.
    """
    by_key: dict[Key, list[Finding]] = {}
    for finding in findings:
        alone = of_programs_alone and not finding.operators
        by_key.setdefault(_alone(finding) if alone else key(finding), []).append(finding)
    return tuple(Cause(tuple(same)) for same in by_key.values())


def key(finding: Finding) -> Key:
    """What findings with one cause have in common."""
    shown = finding.divergence
    if finding.upstream:
        return ("upstream", finding.upstream)
    if shown.symptom is Symptom.UNDEFINED and shown.left_open:
        return ("undefined", shown.side, shown.left_open)
    if shown.cause:
        return ("failure", shown.side, shown.check, shown.symptom, shown.cause)
    return _of_program(finding) if finding.operators else _of_numbers(finding)


def _of_program(finding: Finding) -> Key:
    """What mismatches of programs with one cause have in common."""
    shown = finding.divergence
    nature = shown.nature.removeprefix(shown.operator).lstrip(":, ")
    alike = (shown.side, shown.check, shown.symptom, shown.stage, nature)
    if nature == LOST_ALIAS:
        return ("mismatch", *alike)
    computed = tuple(name for name in finding.dispatched if name not in HOUSEKEEPING)
    return ("mismatch", *alike, *(computed or finding.operators))


def _of_numbers(finding: Finding) -> Key:
    """What wrong numbers of other cases have in common on the backends that show the same fault."""
    shown, shared = finding.divergence, backends(finding)
    if len(shared) == 1:
        return _alone(finding)
    where = (shown.side, shown.check, shown.symptom, shown.stage, shown.path, shown.nature)
    return ("numbers", *where, *sorted(shared))


def _alone(finding: Finding) -> Key:
    """The key of a finding that shares its cause with no other."""
    return ("finding", finding.fingerprint)


def backends(finding: Finding) -> tuple[str, ...]:
    """The backends on which a finding showed, its own first."""
    others = finding.evidence.get(WRONG_SIBLINGS, "")
    return (finding.divergence.backend, *filter(None, others.split(", ")))
