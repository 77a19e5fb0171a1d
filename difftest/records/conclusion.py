"""What a campaign's comparisons mean: the one object that terminal, JSON, page and summary show."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from difftest.records.comparisons import Comparisons
from difftest.records.completeness import NEVER_WORKED, Limits, UsualLimits, excused, shortfalls
from difftest.records.watch import IN_DOUBT, doubts

NOTHING = "Nothing was compared."
TOO_LITTLE = "Too little was compared."
DOUBTFUL = "The judge itself is in doubt."


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """How far a result can be believed, in words.

    `incomplete` is why it means too little, as `subject: why`, by the limits that were given; with any, a
    campaign ends in status 3. `opening` is how every headline begins where it means little by the usual
    limits too; else empty. `excused` says which backends never worked, `unusual` what the user chose that
    lets more pass.
    """

    opening: str = ""
    incomplete: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    unusual: tuple[str, ...] = ()

    @property
    def chosen(self) -> str:
        """The unusual choices as a sentence; empty where there is none."""
        return f"Unusual here: {'; '.join(self.unusual)}." if self.unusual else ""

    def headline(self, findings: str) -> str:
        """A headline about `findings`, after what must be read before it."""
        return " ".join(filter(None, (self.opening, findings, self.chosen)))

    def described(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "opening": self.opening,
            "incomplete": list(self.incomplete),
            "never_worked": list(self.excused),
            "unusual": list(self.unusual),
        }


def concluded(
    comparisons: Comparisons,
    limits: Limits | None = None,
    never_worked: Mapping[str, str] = NEVER_WORKED,
    *,
    more: Iterable[str] = (),
    unusual: tuple[str, ...] = (),
) -> Conclusion:
    """The conclusion by some limits, by default the usual ones. `more` has further reasons for too little."""
    usual = [*shortfalls(comparisons, UsualLimits(), never_worked), *doubts(comparisons), *more]
    reasons = (
        [*shortfalls(comparisons, limits, never_worked), *doubts(comparisons), *more] if limits else usual
    )
    opening = _opening(comparisons, [*reasons, *usual])
    if opening == NOTHING and not reasons:
        reasons = usual  # no limit makes nothing enough
    return Conclusion(
        opening=opening,
        incomplete=tuple(reasons),
        excused=tuple(excused(comparisons, never_worked)),
        unusual=unusual,
    )


def _opening(comparisons: Comparisons, reasons: Iterable[str]) -> str:
    if not any(counts.completed for counts in comparisons.sides.values()):
        return NOTHING
    subjects = {reason.partition(":")[0] for reason in reasons}
    return DOUBTFUL if IN_DOUBT in subjects else TOO_LITTLE if subjects else ""
