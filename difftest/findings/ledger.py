"""The ledger of known faults: which findings show a fault of `known/`, or one that somebody has reported.

An entry is a claim with a date. Until it expires, the findings that it matches are known and turn no run red.
After that it must be looked at again, and `difftest triage` shows an entry whose fault is gone.
"""

import re
import tomllib
from collections.abc import Mapping
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.cases.layers.module import function_called
from difftest.cases.resets import deciding
from difftest.findings.facts import FACTS, SHOWN_FACTS, facts, shown_facts
from difftest.findings.faults import KNOWN, KnownFault, known
from difftest.ground.errors import UsageError
from difftest.ground.plugins import IN, plain
from difftest.judge import predictions
from difftest.judge.divergence import Divergence
from difftest.judge.fingerprint import backend_pattern
from difftest.records import read_limits
from difftest.records.disk import cannot_read
from difftest.records.evidence import DECIDED_BY, DECIDED_ELSEWHERE, MECHANISM
from difftest.records.finding import Finding

_PATTERN = re.compile(r"[*?[]")
"""What makes a pattern of a text."""

LEDGER_FILE = KNOWN
"""The project's own ledger: the folder with a file for each known fault."""

NOTICE = timedelta(days=30)
"""How long before its last day an entry is announced."""

NOTHING: Mapping[str, str] = MappingProxyType({})


def written(pattern: str, backend: str) -> str:
    """A backend as a pattern writes it: without an environment, unless the pattern names one."""
    return backend if IN in backend_pattern(pattern) else plain(backend)


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known fault: patterns (`*`, `?`, `[...]`) for what a divergence of it shows.

    A `fingerprint` that names an environment (`torch_dtensor@newest-*`) is about that one alone.
    `what` maps facts of the divergence (`difftest.findings.facts.SHOWN_FACTS`) to patterns; one without
    such a fact is not meant. `cause` says of a failure its kind, message and frame, and of a
    crash the stage, without numbers (`difftest.judge.divergence.identity`). `nature` is the word for the
    damage to wrong numbers, empty for others. `where` maps facts of the case (`difftest.findings.facts`) to
    patterns. It is for mismatches, whose fingerprints say little of their cause. `operators` are patterns
    for the operator of a program that is at fault, one of which must fit; without any, the entry is about
    whatever showed the finding. `upstream` is the issue, or the script that shows a fault which nobody has
    reported yet. `expires` is the last day on which the entry counts. With `quarantine`, cases that `where`
    matches are not launched on the fingerprint's backend; this is for faults that take a machine down.
    With `always`, the fault ends every run of its backend, so that it need not agree in a campaign.

    `predicts` names a model of the fault (`difftest.judge.predictions`), which must give the very numbers
    that were measured. `decided_by` is an option as a finding's evidence names it, such as
    `spelling.optimizer_before=True`, or a mechanism of the framework's, such as `runtime.cached_graphs`: the
    entry is about whatever that alone decides.
    """

    fingerprint: str
    upstream: str
    reason: str
    expires: date
    what: Mapping[str, str] = {}
    cause: str = "*"
    nature: str = "*"
    where: Mapping[str, str] = {}
    operators: tuple[str, ...] = ()
    predicts: str = ""
    decided_by: str = ""
    quarantine: bool = False
    always: bool = False

    def __post_init__(self) -> None:
        if self.predicts and self.predicts not in (allowed := predictions.names()):
            msg = f"entry {self.fingerprint!r} predicts {self.predicts!r}; allowed: {', '.join(allowed)}"
            raise ValueError(msg)
        for name, named, allowed in (("what", self.what, SHOWN_FACTS), ("where", self.where, tuple(FACTS))):
            if unknown := sorted(set(named) - set(allowed)):
                given = f"entry {self.fingerprint!r} asks in `{name}` for {', '.join(unknown)}"
                msg = f"{given}; allowed: {', '.join(allowed)}"
                raise ValueError(msg)
        if self.quarantine and not (self.where or self.operators):
            msg = f"entry {self.fingerprint!r} is a quarantine of every case; `where` must say of which"
            raise ValueError(msg)
        inexact = _PATTERN.search(self.backend) or _PATTERN.search(self.cause) or self.where or self.operators
        if self.always and inexact:
            given = f"entry {self.fingerprint!r} is always the fault, with cause {self.cause!r}"
            msg = f"{given}; it must name one backend and an exact cause, without `where` and `operators`"
            raise ValueError(msg)

    @property
    def conditions(self) -> int:
        """How much it asks for beside the fingerprint: an entry that asks for more is more specific."""
        patterns = (self.cause, self.nature)
        named = (self.what, self.operators, self.predicts, self.decided_by)
        return sum(pattern != "*" for pattern in patterns) + len(self.where) + sum(map(bool, named))

    @property
    def backend(self) -> str:
        """The pattern of the backends that it is about."""
        return backend_pattern(self.fingerprint)

    def written(self, backend: str) -> str:
        """A backend's name as the entry writes it."""
        return written(self.fingerprint, backend)

    def matches(self, shown: Divergence, case: Case, evidence: Mapping[str, str] = NOTHING) -> bool:
        """Whether it is about what `case` showed, in any environment of its backend unless it names one.

        `evidence` is that of the finding, where there is one already.
        """
        if self.decided_by and not self._is_decided(case, evidence):
            return False
        return self.resembles(shown) and self.covers(case, shown.operator)

    def resembles(self, shown: Divergence) -> bool:
        """Whether a divergence is what the entry says of one, whatever the case and the evidence are."""
        backend = self.written(shown.backend)
        texts = (backend, self.backend), (shown.cause, self.cause), (shown.nature, self.nature)
        if self.predicts not in {"", *shown.predicted} or not all(fnmatchcase(*pair) for pair in texts):
            return False
        fingerprint = msgspec.structs.replace(shown, backend=backend).fingerprint
        if not fnmatchcase(fingerprint, self.fingerprint):  # after the rest: its digest takes longest
            return False
        actual = shown_facts(shown) if self.what else {}
        return all(name in actual and fnmatchcase(actual[name], text) for name, text in self.what.items())

    def _is_decided(self, case: Case, evidence: Mapping[str, str]) -> bool:
        """Whether the case takes the option of `decided_by`, without which the finding's own run agrees.

        Every case has the mechanisms of its framework.
        """
        taken = self.decided_by.startswith(MECHANISM) or self.decided_by in dict(deciding(case))
        decisive = (evidence.get(name, "").split(", ") for name in (DECIDED_BY, DECIDED_ELSEWHERE))
        return taken and any(self.decided_by in options for options in decisive)

    def covers(self, case: Case, operator: str = "", actual: Mapping[str, str] | None = None) -> bool:
        """Whether `where` matches the case's facts, and `operators` matches `operator`.

        Without an `operator`, one of the case's is enough. A module is the function that it calls: an entry
        about `nn.functional.elu` is about `nn.ELU` too. `actual` are the case's facts where they are at hand.
        """
        actual = facts(case) if actual is None else actual
        if not all(fnmatchcase(actual[fact], pattern) for fact, pattern in self.where.items()):
            return False
        program = [layer.title for layer in case.model.layers] if case.model.is_program else []
        return not self.operators or any(map(self.names, [operator] if operator else program))

    def names(self, operator: str) -> bool:
        """Whether `operators` matches an operator, or the function that a module calls; any without them."""
        name = function_called(operator)
        return not self.operators or any(fnmatchcase(name, pattern) for pattern in self.operators)


class Ledger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Known faults; where several entries match, the first counts."""

    entries: tuple[Entry, ...] = msgspec.field(default=(), name="known")

    def entry(
        self, shown: Divergence, case: Case, today: date, evidence: Mapping[str, str] = NOTHING
    ) -> Entry | None:
        """The first entry about a divergence of `case` that counts `today`, or None.

        `evidence` is that of the finding, where there is one already.
        """
        return next((entry for entry in self.counting(today) if entry.matches(shown, case, evidence)), None)

    def entry_of(self, finding: Finding, case: Case, today: date) -> Entry | None:
        """The first entry about a finding that counts `today`, or None; `case` is one that showed it."""
        return self.entry(finding.divergence, case, today, finding.evidence)

    def quarantine(self, backend: str, case: Case, today: date) -> Entry | None:
        """The first entry that keeps a case from a backend `today`, or None."""
        quarantines = (
            entry
            for entry in self.counting(today)
            if entry.quarantine and fnmatchcase(entry.written(backend), entry.backend)
        )
        return next((entry for entry in quarantines if entry.covers(case)), None)

    def about(self, backend: str, case: Case, today: date) -> int:
        """How many entries that count `today` are about a backend and something that a case has."""
        actual = facts(case)
        ours = (
            entry
            for entry in self.counting(today)
            if entry.where and fnmatchcase(entry.written(backend), entry.backend)
        )
        return sum(entry.covers(case, actual=actual) for entry in ours)

    def never_worked(self, shown: Mapping[str, Divergence], today: date) -> dict[str, str]:
        """The issues of faults that end every run of their backend, by the fingerprints of what was shown."""
        always = [entry for entry in self.counting(today) if entry.always]
        pairs = ((name, entry) for name, one in shown.items() for entry in always if entry.resembles(one))
        return {name: entry.upstream for name, entry in pairs}

    def expired(self, today: date) -> tuple[Entry, ...]:
        """The entries that no longer count."""
        return tuple(entry for entry in self.entries if entry.expires < today)

    def expiring(self, today: date) -> tuple[Entry, ...]:
        """The entries whose last day comes within `NOTICE`, those of the first day first."""
        soon = (entry for entry in self.entries if today <= entry.expires <= today + NOTICE)
        return tuple(sorted(soon, key=lambda entry: entry.expires))

    def warning(self, today: date) -> str:
        """One line about the entries that expire soon; empty where none does."""
        soon = self.expiring(today)
        if not soon:
            return ""
        count = f"{len(soon)} {'entries' if len(soon) > 1 else 'entry'} of the ledger of known faults"
        return f"{count} will expire by {soon[-1].expires}, the first on {soon[0].expires}"

    def counting(self, today: date) -> tuple[Entry, ...]:
        """The entries that have not expired."""
        return tuple(entry for entry in self.entries if entry.expires >= today)


def read_ledger(file: Path = LEDGER_FILE) -> Ledger:
    """The ledger in `file`, or in a folder of known faults; `UsageError` naming what cannot be read."""
    try:
        if file.is_dir():
            return _of_faults(file)
        return _parsed(read_limits.read(file, read_limits.MOST_LEDGER_BYTES))
    except OSError as error:
        raise cannot_read(file, error) from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeError, RecursionError) as error:
        msg = f"{file}: {error}"
        raise UsageError(msg) from error


@lru_cache(maxsize=2)  # a command and its reports read the same file, and parsing takes 50 ms
def _parsed(content: bytes) -> Ledger:
    return msgspec.convert(tomllib.loads(content.decode()), type=Ledger)


@lru_cache(maxsize=2)
def _of_faults(folder: Path) -> Ledger:
    """The entries of all faults: of a greater priority first, then the more specific, then by name."""
    pairs = [(fault, entry) for fault in known(folder) for entry in entries(fault)]
    pairs.sort(key=lambda pair: (-pair[0].priority, -pair[1].conditions))
    return Ledger(entries=tuple(entry for _, entry in pairs))


def entries(fault: KnownFault) -> tuple[Entry, ...]:
    """What the file of a fault says of the divergences that show it."""
    usual: dict[str, Any] = {"upstream": fault.known_as, "reason": fault.reason or fault.what}
    usual |= {"expires": fault.expires} if fault.expires else {}
    try:
        return msgspec.convert([{**usual, **shown} for shown in fault.shows], type=tuple[Entry, ...])
    except msgspec.ValidationError as error:
        msg = f"{KNOWN / fault.name}.toml: {error}"
        raise UsageError(msg) from error
