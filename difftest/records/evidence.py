"""The names under which `finding.json` stores a finding's evidence, and what reports call them.

The stored names are part of the file's format (`FORMER` are those of schema 2); `label` gives the words for
people.
"""

from collections.abc import Iterable, Mapping

UNDECIDED = "no telling"
"""How files say that a question could not be decided; an ablation's answer may continue with the reason."""

SINGLE = "single"
"""Whether the backend also diverges on one device: `agrees`, `diverges` or `UNDECIDED`."""

OTHER = "other"
"""The same for the other side at the case's layout."""

OTHER_SINGLE = "other_single"
"""The same for the other side on one device."""

TWO_BY_TWO = (SINGLE, OTHER, OTHER_SINGLE)

DECIDED_BY = "decided_by"
"""The options of the case, and the mechanisms of the framework, without which the run agrees."""

DECIDED_ELSEWHERE = "decided_elsewhere"
"""Options without which a later case agrees: a fault that is known may have the fingerprint of another."""

MECHANISM = "runtime."
"""With what the name of a mechanism begins."""

LATER_CHECKS = "then"
"""What else the checks report of the same run: most often a consequence."""

CORRECT_SIBLINGS = "right_siblings"
"""The same side's backends that computed the case correctly."""

WRONG_SIBLINGS = "wrong_siblings"
"""The same side's backends that show the same fault."""

REFERENCES = "references"
"""Whether references of another make agree with the oracle on the case's twin, and which they are."""

SET_ASIDE = "set_aside"
"""The kind of the `LethalError` for which the case does not run again; only where there was one."""

POSTPONED = "postponed"
"""Why some of the evidence was not gathered, as for want of time; the same command gathers it."""

REPLAYED = "replayed"
"""What a replay of the HLO on another XLA showed; begins with `diverges` where it is still wrong."""

GUILTY_PASS = "guilty_pass"  # noqa: S105  no password
"""The pass of XLA that is at fault, and why; begins with its name, or with one of `NO_PASS`."""

NO_PASS = ("frontend", "unclear")
"""What stands in place of a pass where XLA is not at fault, or where that could not be decided."""

FORMER = {
    "decided by": DECIDED_BY,
    "right beside it": CORRECT_SIBLINGS,
    "wrong beside it": WRONG_SIBLINGS,
    "set aside": SET_ASIDE,
}
"""The names under which earlier versions stored evidence, with the present ones."""

_LABELS = {
    SINGLE: "on one device",
    OTHER: "the other side",
    OTHER_SINGLE: "the other side on one device",
    DECIDED_BY: "decided by the option",
    DECIDED_ELSEWHERE: "decided in other cases by the option",
    LATER_CHECKS: "then also wrong",
    CORRECT_SIBLINGS: "computed correctly by",
    WRONG_SIBLINGS: "also wrong on",
    REFERENCES: "references of another make",
    SET_ASIDE: "not run again, because of",
    POSTPONED: "still to be gathered, because",
    REPLAYED: "replayed on another XLA",
    GUILTY_PASS: "the pass of XLA",
}


def with_decided(evidence: Mapping[str, str], options: Iterable[str]) -> Mapping[str, str]:
    """The evidence, which names `options` too among those that decide in other cases."""
    named = evidence.get(DECIDED_ELSEWHERE, "").split(", ")
    words = ", ".join(filter(None, dict.fromkeys((*named, *options))))
    return {**evidence, DECIDED_ELSEWHERE: words} if words else evidence


def answer(text: str) -> str:
    """A stored answer as reports show it: `undecided` for `UNDECIDED`, other text as it is."""
    return f"undecided{text.removeprefix(UNDECIDED)}" if text.startswith(UNDECIDED) else text


def label(name: str) -> str:
    """What reports call the evidence stored under `name`; the name itself where it says enough."""
    return _LABELS.get(name, name)
