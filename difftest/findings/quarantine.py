"""The ledger's quarantine: cases that are not launched on a backend, to protect the machine from a fault."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from difftest.campaign.campaign import BackendTraits
from difftest.cases.case import Case
from difftest.findings.ledger import Ledger


@dataclass(slots=True, kw_only=True)
class Quarantined:
    """A backend, called `name`, without the cases that the ledger keeps from it on the day `today`."""

    SIDE: str
    FRAMEWORK: str
    name: str
    backend: BackendTraits
    ledger: Ledger
    today: date

    def unsupported(self, case: Case) -> str | None:
        """Why the backend does not get a case: it does not support it, or the ledger quarantines it.

        None if it gets it.
        """
        if reason := self.backend.unsupported(case):
            return reason
        entry = self.ledger.quarantine(self.name, case, self.today)
        return f"quarantined until {entry.expires}: {entry.reason} ({entry.upstream})" if entry else None


def with_quarantine(
    backends: Mapping[str, BackendTraits], ledger: Ledger, today: date
) -> Mapping[str, BackendTraits]:
    """The backends, each without the cases that the ledger keeps from it."""
    return {
        name: Quarantined(
            SIDE=backend.SIDE,
            FRAMEWORK=backend.FRAMEWORK,
            name=name,
            backend=backend,
            ledger=ledger,
            today=today,
        )
        for name, backend in backends.items()
    }
