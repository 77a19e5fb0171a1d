"""What a release changed: what the scripts of known faults and some cases showed before it, and with it.

A flip is something that two successive releases of a package do not show alike. Those of a package follow
one another from old to new.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Literal, TypeAlias

import msgspec

from difftest.findings.faults import SCRIPTS, KnownFault, release_order
from difftest.records.finding import State

JAXLIB = "jaxlib"
"""The distribution whose releases are those of XLA."""

SHARDY, GSPMD = "Shardy", "GSPMD"
"""XLA's partitioners."""

Kind: TypeAlias = Literal["script", "case"]


class Became(StrEnum):
    """What a release made of something."""

    FIXED = "fixed"
    BROKEN = "broken"
    CHANGED = "changed"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What one thing showed on one release of a package.

    `name` is the fault of a script, or the id of a case, which ran on `backend`. A fault that is `alive`, or
    a case that differs, shows `shown`: the fingerprint, or nothing more. `note` says how it was `unclear`.
    `partitioner` is XLA's, where the thing ran with a certain one. `when` is the time in ISO 8601, UTC; empty
    where the list says it and nothing ran.
    """

    package: str
    release: str
    kind: Kind
    name: str
    state: State
    shown: str = ""
    note: str = ""
    backend: str = ""
    partitioner: str = ""
    when: str = ""

    @property
    def subject(self) -> tuple[str, str, str, str, str]:
        """What was tried, on whatever release."""
        return self.package, self.kind, self.name, self.backend, self.partitioner

    @property
    def script(self) -> str:
        """The script that was tried, as findings name it; empty for a case."""
        with_jaxlib = "_on_jax" if self.package == JAXLIB else ""
        return f"{SCRIPTS}{self.name}{with_jaxlib}.py" if self.kind == "script" else ""

    @property
    def words(self) -> str:
        """The state in words: a case agrees or differs, a fault is there or not."""
        if self.state == "unclear":
            return f"{'ends otherwise' if self.kind == 'script' else 'undecided'}: {self.note}"
        if self.kind == "script":
            return "the fault is there" if self.state == "alive" else "it is not there"
        return f"differs: {self.shown}" if self.state == "alive" else "agrees"


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """Something that `after` shows otherwise than `before`, the release that was tried before it."""

    became: Became
    before: Tried
    after: Tried

    @property
    def package(self) -> str:
        """The package whose release changed it."""
        return self.after.package

    @property
    def identity(self) -> str:
        """A name that stays when the watch runs again."""
        parts = (*filter(None, self.after.subject), self.before.release, self.after.release)
        return ":".join(parts)


def flips(tried: Iterable[Tried]) -> tuple[Flip, ...]:
    """All flips between successive releases: broken ones first, then changed and fixed ones, by package."""
    ordered = sorted(tried, key=lambda one: (one.subject, release_order(one.release)))
    each = (
        flip
        for _, group in groupby(ordered, key=lambda one: one.subject)
        for before, after in pairwise(group)
        if (flip := _flip(before, after))
    )
    urgency = (Became.BROKEN, Became.CHANGED, Became.FIXED)
    return tuple(sorted(each, key=lambda flip: (urgency.index(flip.became), flip.package, flip.identity)))


def _flip(before: Tried, after: Tried) -> Flip | None:
    if before.release == after.release:
        return None
    if before.state != after.state:
        became = {"fixed": Became.FIXED, "alive": Became.BROKEN}.get(after.state, Became.CHANGED)
        if "unclear" in {before.state, after.state}:
            became = Became.CHANGED
    elif before.shown != after.shown:
        became = Became.CHANGED
    else:
        return None
    return Flip(became=became, before=before, after=after)


def listed(faults: Iterable[KnownFault]) -> Iterator[Tried]:
    """What the list says of the releases that each fault's scripts ran on, as if they had been tried."""
    for fault in faults:
        lists: tuple[tuple[str, str, Mapping[str, State]], ...] = (
            (fault.needs, "", fault.releases),
            (JAXLIB, SHARDY if fault.gspmd else "", fault.jaxlib),
            (JAXLIB, GSPMD, fault.gspmd),
        )
        for package, partitioner, states in lists:
            for release, state in states.items():
                yield Tried(
                    package=package,
                    release=release,
                    kind="script",
                    name=fault.name,
                    state=state,
                    note=fault.notes.get(release, ""),
                    partitioner=partitioner,
                )
