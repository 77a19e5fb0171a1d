"""The ledger of known faults: which findings are faults that somebody has reported upstream already.

The one idea: an entry is a claim with a date. Until it expires, what it matches is known and turns nothing red; after that it must be
looked at again, and a fault that is gone shows as an entry that passes.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from difftest.campaign.campaign import BackendTraits
from difftest.cases.case import Case, uneven_cuts
from difftest.cases.layers import walk
from difftest.cases.layout import Shard
from difftest.errors import UsageError
from difftest.judge.fingerprint import Fingerprint, backend_pattern
from difftest.plugins import plain
from difftest.records import read_limits

LEDGER_FILE = Path(__file__).with_name("ledger.toml")
"""The project's own ledger."""

FACTS = (
    "path",
    "mesh",
    "dtype",
    "optimizer",
    "loss",
    "regime",
    "layers",
    "clipping",
    "cuts",
    "kernels",
    "bucket_view",
    "lone_tensor",
)


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known fault. `fingerprint` and `detail` are patterns (`*`, `?`, `[...]`) for those of a finding.

    `where` has patterns for facts of the finding's case (`facts`), for mismatches, whose fingerprints say little of their cause.
    `upstream` is the issue, or the script that shows a fault nobody has reported yet. `expires` is the last day on which the entry counts.
    `quarantine`: cases that `where` matches are not launched on the fingerprint's backend, for faults that take a machine down.
    """

    fingerprint: str
    upstream: str
    reason: str
    expires: date
    detail: str = "*"
    where: Mapping[str, str] = {}
    quarantine: bool = False

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.where) - set(FACTS)):
            msg = f"entry {self.fingerprint!r} asks for {', '.join(unknown)}; allowed: {', '.join(FACTS)}"
            raise ValueError(msg)
        if self.quarantine and not self.where:
            msg = f"entry {self.fingerprint!r} is a quarantine of every case; `where` must say of which"
            raise ValueError(msg)

    @property
    def backend(self) -> str:
        """The pattern of the backends it is about: a fingerprint begins with its backend."""
        return backend_pattern(self.fingerprint)

    def matches(self, fingerprint: str, detail: str, case: Case) -> bool:
        """Whether it is about a finding or divergence with this `fingerprint` and `detail`, which `case` showed.

        An entry is about a fault in every environment of its backend.
        """
        parsed = Fingerprint.parse(fingerprint)
        text = str(parsed.without_environment()) if parsed else fingerprint
        return fnmatchcase(text, self.fingerprint) and fnmatchcase(detail, self.detail) and self.covers(case)

    def covers(self, case: Case) -> bool:
        """Whether the case is such as `where` says."""
        known = facts(case)
        return all(fnmatchcase(known[fact], pattern) for fact, pattern in self.where.items())


class Ledger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Known faults, in the order in which they are asked."""

    known: tuple[Entry, ...] = ()

    def entry(self, fingerprint: str, detail: str, case: Case, today: date) -> Entry | None:
        """The first entry about a finding or divergence that counts `today`, or None."""
        counting = self._counting(today)
        return next((entry for entry in counting if entry.matches(fingerprint, detail, case)), None)

    def quarantine(self, backend: str, case: Case, today: date) -> Entry | None:
        """The entry for which a case is not launched on a backend, or None."""
        kept = (
            entry
            for entry in self._counting(today)
            if entry.quarantine and fnmatchcase(plain(backend), entry.backend)
        )
        return next((entry for entry in kept if entry.covers(case)), None)

    def expired(self, today: date) -> tuple[Entry, ...]:
        """The entries that count no more."""
        return tuple(entry for entry in self.known if entry.expires < today)

    def _counting(self, today: date) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.known if entry.expires >= today)


@dataclass(slots=True, kw_only=True)
class Quarantined:
    """A backend, called `name`, that is not given the cases which the ledger keeps from it."""

    SIDE: str
    FRAMEWORK: str
    name: str
    backend: BackendTraits
    ledger: Ledger
    today: date

    def unsupported(self, case: Case) -> str | None:
        """Why the backend is not given a case: it cannot express it, or it is quarantined."""
        if reason := self.backend.unsupported(case):
            return reason
        entry = self.ledger.quarantine(self.name, case, self.today)
        return f"quarantined until {entry.expires}: {entry.reason} ({entry.upstream})" if entry else None


def guarded(
    backends: Mapping[str, BackendTraits], ledger: Ledger, today: date
) -> Mapping[str, BackendTraits]:
    """The backends, each behind the ledger's quarantine."""
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


def facts(case: Case) -> Mapping[str, str]:
    """What an entry may ask of a case: `FACTS`, as words. `layers` are kinds with a space between.

    `clipping` and `bucket_view` (DDP's) are `on` or `off`, `cuts` are `even` or `uneven`, `kernels` of convolutions `whole` or `cut`.
    `lone_tensor` is `yes` where the model has a single parameter, or a single buffer, which is an attention's mask.
    """
    parameters = case.layout.parameters
    kernels = [
        parameters[f"{path}.{name}"] for path, layer in walk(case.model.layers) for name in layer.KERNELS
    ]
    buffers = sum(layer.BUFFERS for _, layer in walk(case.model.layers))
    return {
        "path": case.path,
        "mesh": str(case.layout.mesh),
        "dtype": case.dtype,
        "optimizer": case.training.optimizer,
        "loss": case.training.loss,
        "regime": case.data.regime,
        "layers": " ".join(type(layer).__name__ for _, layer in walk(case.model.layers)),
        "clipping": "off" if case.training.clip_norm is None else "on",
        "cuts": "uneven" if uneven_cuts(case) else "even",
        "bucket_view": "on" if case.replication.gradient_as_bucket_view else "off",
        "kernels": "cut" if any(Shard(2) in placements for placements in kernels) else "whole",
        "lone_tensor": "yes" if 1 in {buffers, len(parameters)} else "no",
    }


def read_ledger(file: Path = LEDGER_FILE) -> Ledger:
    """The ledger in `file`; `UsageError` naming it where it cannot be read."""
    try:
        return msgspec.convert(
            tomllib.loads(read_limits.read(file, read_limits.MOST_LEDGER_BYTES).decode()), type=Ledger
        )
    except OSError as error:
        msg = f"cannot read {str(file)!r}: {error.strerror}"
        raise UsageError(msg) from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeError, RecursionError) as error:
        msg = f"{file}: {error}"
        raise UsageError(msg) from error


def utc_today() -> date:
    """Today, in UTC."""
    return datetime.now(UTC).date()
