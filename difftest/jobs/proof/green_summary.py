"""Whether a green result can be trusted: how campaigns end that did not compare what they should have."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONTROL = ""
"""The name of no fault: the same campaign without one must end in status 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEnding:
    """How a campaign with a vacuous fault ended: the exit status of `difftest run`, and its reason.

    `sides` are those that the fault was planted into. `said`: the campaign's page says it too. `seconds` is
    the wall time.
    """

    fault: str
    about: str
    sides: tuple[str, ...]
    status: int
    reason: str
    said: bool = True
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the status is another than 0, or 0 where there is no fault, and the page says it."""
        return self.said and (self.status == 0) == (self.fault == CONTROL)


def green_summary(endings: Sequence[CampaignEnding]) -> dict[str, Any]:
    """How many of the faults were noticed, and every campaign by itself, the one without a fault first."""
    planted = [ending for ending in endings if ending.fault != CONTROL]
    return {
        "faults": len(planted),
        "noticed": sum(ending.right for ending in planted),
        "wrong": [ending.fault or "without a fault" for ending in endings if not ending.right],
        "by_fault": [asdict(ending) for ending in endings],
    }
