"""Ablations, one file for each subject: a case with one thing changed, to see what a finding depends on.

To add an ablation, add it to the file of its subject, or add a file that satisfies `AblationSubject`; there
is no list to extend. An ablation's name continues the sentence "the finding disappears when ...". A known
benign cause is an ablation too: it removes the cause and names it, and a finding that then disappears was
benign.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from difftest.cases.case import Case
from difftest.ground import plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The unchanged run: `case` on `backend`, which is on `side` and uses `framework`.

    `siblings` are the side's other backends. `environment` are the environment variables that the backend's
    runs start with.
    """

    case: Case
    backend: str
    side: str
    framework: str
    siblings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def flags(self) -> str:
        """The `XLA_FLAGS` of the environment; empty for none."""
        return self.environment.get("XLA_FLAGS", "")

    def changed(
        self, name: str, *, case: Case | None = None, backend: str = "", benign: str = "", **options: str
    ) -> "Ablation":
        """An ablation of this run; `options` are further environment variables."""
        return Ablation(
            name=name, case=case or self.case, backend=backend or self.backend, options=options, benign=benign
        )

    def with_flags(self, name: str, flags: str, benign: str = "") -> "Ablation":
        """An ablation that gives XLA further flags."""
        return self.changed(name, benign=benign, XLA_FLAGS=f"{self.flags} {flags}".strip())

    def impossible(self, name: str, reason: str) -> "Ablation":
        """An ablation that cannot be run here, and why."""
        return Ablation(name=name, case=self.case, backend=self.backend, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One thing changed, in words, and what to run: `case` on `backend` with environment variables `options`.

    `benign` names the known benign cause that it removes; empty for most. `reason` says why it cannot run
    here; empty where it can.
    """

    name: str
    case: Case
    backend: str
    options: Mapping[str, str] = field(default_factory=dict)
    benign: str = ""
    reason: str = ""


class AblationSubject(Protocol):
    """What a file in this folder declares."""

    ORDER: int
    """Subjects with smaller numbers come first."""

    def ablations(self, baseline: Baseline) -> Iterator[Ablation]:
        """Those that make sense for this run."""


@cache
def load_all() -> tuple[AblationSubject, ...]:
    """All subjects, by `ORDER` and then by name."""
    subjects: list[AblationSubject] = [plugins.load(__name__, name) for name in plugins.names(__name__)]
    return tuple(sorted(subjects, key=lambda subject: subject.ORDER))


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """All of them, subject by subject."""
    return (ablation for subject in load_all() for ablation in subject.ablations(baseline))
