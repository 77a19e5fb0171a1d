"""Findings of programs by cause: many operators share a fault, and a reader wants it once.

The findings that one issue of the ledger covers have one cause. So have failures of one side with the same
message and framework frame, whatever operator ran, and mismatches that look alike in the same pass of
operators that torch makes of the same operators of its own. What torch leaves open for one reason is one
cause. A finding of any other case is a cause by itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from difftest.judge.outcome import Symptom
from difftest.judge.programs import LEFT_OPEN, LOST_ALIAS
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
        """The backends that showed it, sorted; outside of programs that of the finding alone."""
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


def causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """The findings by cause, in the order in which each cause comes first."""
    by_key: dict[Key, list[Finding]] = {}
    for number, finding in enumerate(findings):
        same = key(finding) if finding.operators else (str(number),)
        by_key.setdefault(same, []).append(finding)
    return tuple(Cause(tuple(same)) for same in by_key.values())


def key(finding: Finding) -> Key:
    """What findings of programs with one cause have in common."""
    shown = finding.divergence
    if finding.upstream:
        return ("upstream", finding.upstream)
    if shown.symptom is Symptom.UNDEFINED and (why := shown.detail.partition(LEFT_OPEN)[2]):
        return ("undefined", shown.side, why)
    if shown.cause:
        return ("failure", shown.side, shown.check, shown.symptom, shown.cause)
    nature = shown.nature.removeprefix(shown.operator).lstrip(":, ")
    alike = (shown.side, shown.check, shown.symptom, shown.stage, nature)
    if nature == LOST_ALIAS:
        return ("mismatch", *alike)
    computed = tuple(name for name in finding.dispatched if name not in HOUSEKEEPING)
    return ("mismatch", *alike, *(computed or finding.operators))


def backends(finding: Finding) -> tuple[str, ...]:
    """The backends on which a finding of programs showed, its own first; of others only that."""
    others = finding.evidence.get(WRONG_SIBLINGS, "") if finding.operators else ""
    return (finding.divergence.backend, *filter(None, others.split(", ")))
