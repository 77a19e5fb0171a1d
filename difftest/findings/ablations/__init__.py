"""Ablations, a file a subject: a case with one thing changed, to see what a finding depends on.

To add one, add it to the file of its subject, or add a file; there is no list to extend. A name goes on where "the finding disappears when"
leaves off. A known benign cause is an ablation too, one that takes the cause away and names it: what then disappears was that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from difftest import plugins
from difftest.cases.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is ablated: `case` on `backend`, which is on `side` by `framework`; `siblings` are that side's other backends.

    `environment` is what the backend's runs start with.
    """

    case: Case
    backend: str
    side: str
    framework: str
    siblings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def flags(self) -> str:
        """The `XLA_FLAGS` among it."""
        return self.environment.get("XLA_FLAGS", "")

    def changed(
        self, name: str, *, case: Case | None = None, backend: str = "", benign: str = "", **options: str
    ) -> "Ablation":
        """An ablation of this; `options` are environment variables of the run."""
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
    """One thing changed, in words, and what to run: `case` on `backend` with `options` as environment variables.

    `benign` names the known benign cause that it takes away; empty for most. `reason` says why it cannot be run here; empty where it can.
    """

    name: str
    case: Case
    backend: str
    options: Mapping[str, str] = field(default_factory=dict)
    benign: str = ""
    reason: str = ""


class Subject(Protocol):
    """What a module in this folder offers."""

    ORDER: int
    """Subjects with small numbers are told first."""

    def ablations(self, asked: Asked) -> Iterator[Ablation]:
        """Those that make sense of what is asked."""


@cache
def _subjects() -> tuple[Subject, ...]:
    loaded = (plugins.load(__name__, name) for name in plugins.names(__name__))
    return tuple(sorted(loaded, key=lambda subject: subject.ORDER))


def ablations(asked: Asked) -> Iterator[Ablation]:
    """All of them, subject by subject."""
    return (ablation for subject in _subjects() for ablation in subject.ablations(asked))
