"""A finding: a divergence with the first case that showed it, and how often it was measured since."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec

from difftest.ground.errors import DamagedError, UsageError
from difftest.judge.divergence import Divergence
from difftest.judge.facts import Whole
from difftest.judge.pieces import Piece
from difftest.records.evidence import FORMER
from difftest.records.former_details import current_name, elsewhere, with_facts

SCHEMA = 3
"""Schema 2 had a sentence, `detail`, instead of a divergence's facts, and other names of the evidence.

Schema 1 had the divergence's fields among the finding's own, too, and the names in `_RENAMED`.
"""

_RENAMED = {"seen": "cases_by_campaign", "untold": "unannounced"}
"""Keys of schema 1, and what they are called since."""

State: TypeAlias = Literal["alive", "fixed", "unclear"]
"""What a release says of a fault: it is there, it is not, or its script ended in some other way."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""A number of cases or of runs."""


class Uncovered(msgspec.Struct, frozen=True):
    """A divergence that the ledger must know, without its log, and the case that showed it as JSON."""

    divergence: Divergence
    case: str


STABLE_LEAST = 2 / 3
"""The least share of runs in which a finding must come back to be reproduced, and worth a report."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A divergence with the first case that showed it, and how often it was measured since.

    `fingerprint` is that of `divergence`. It is a field of its own because a file of schema 1 keeps the
    fingerprint without the `cause` and the `nature` that it was made of. `case` is the id of the first case;
    `paths` are all that cases showed it on. `operators` are those of programs that were at fault, and
    `dispatched` are torch's operators that the first of them stands for; both are empty outside of programs.
    `blame` is a verdict in words (`difftest.judge.blame`), and
    `evidence` what it rests on. `stable` is `(k, n)`: it came back in k of n repetitions in fresh processes.
    Times are ISO 8601 in UTC.

    `conditions` are what is necessary in the case with the id `reduced`, in words (`difftest minimize`);
    empty where nothing was reduced. `ablations` map what was changed in that case to what became of the
    finding; `located` names the module where it first shows, one line for each direction (`difftest ablate`).
    Both are empty before that command has run. `status` is the result of the last `difftest triage`, which
    ran at `checked`; the finding came back in `returned` (k, n) runs. `releases` map releases, such as
    `torch 2.15.0`, to what `difftest bisect` found there: alive or fixed.

    `pieces` say where the diverging tensor of the first case was wrong, rank by rank; empty where it was not
    measured on several ranks, and in records of earlier versions.

    `cases_by_campaign` counts the cases of each campaign that showed it, and `hits` is their sum.
    `new_in` (`unannounced` in files) is the campaign that the finding is new to and the index of the case,
    None where it is known; `announced` is the day on which that campaign first announced it, empty before
    (`difftest.records.announced`). `uncovered` is a divergence that showed it and that the ledger does not
    know, where it knows the finding; it counts while the finding is new. `upstream` is
    the ledger's issue or script, as of the last time that the finding was announced; empty for none.
    """

    fingerprint: str
    divergence: Divergence
    blame: str
    hits: Count
    case: str
    paths: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    dispatched: tuple[str, ...] = ()
    evidence: Mapping[str, str] = {}
    stable: tuple[Count, Count] = (0, 0)
    pieces: tuple[Piece, ...] = ()
    environment: Mapping[str, str] = {}
    first_seen: str = ""
    last_seen: str = ""
    reduced: str = ""
    conditions: tuple[str, ...] = ()
    ablations: Mapping[str, str] = {}
    located: tuple[str, ...] = ()
    status: str = ""
    checked: str = ""
    returned: tuple[Count, Count] = (0, 0)
    releases: Mapping[str, State] = {}
    cases_by_campaign: Mapping[str, Count] = {}
    new_in: tuple[str, Whole] | None = msgspec.field(default=None, name="unannounced")
    announced: str = ""
    uncovered: Uncovered | None = None
    upstream: str = ""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Calls a known fault by the name that it has now; files of earlier versions have another."""
        msgspec.structs.force_setattr(self, "upstream", current_name(self.upstream))

    @property
    def repeats(self) -> tuple[Count, Count]:
        """In how many of how many runs it came back: in its last triage, else when it was new."""
        return self.returned if self.returned[1] else self.stable

    @property
    def steady(self) -> bool:
        """Whether it comes back often enough for a report."""
        back, times = self.repeats
        return times > 0 and back >= STABLE_LEAST * times

    def new_to(self, campaign: str) -> bool:
        """Whether `campaign` has to announce it as new, or does so again today."""
        return self.new_in is not None and (not self.announced or self.new_in[0] == campaign)

    def to_json(self) -> bytes:
        """Readable JSON, keys sorted."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The finding in a file of this schema or an earlier one.

        `DamagedError` where it cannot be read, another `UsageError` where it is too new.
        """
        try:
            schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("schema", msgspec.Raw(b"1"))
            version = msgspec.json.decode(schema, type=int)
            if version > SCHEMA:
                reads = f"this program reads up to {SCHEMA}"
                msg = f"finding has schema {version}; {reads}: it was written by a newer version"
                raise UsageError(msg)
            if version == SCHEMA:
                return msgspec.json.decode(text, type=cls)
            fields = msgspec.json.decode(text, type=dict[str, Any])
            return msgspec.convert(
                _from_schema_2(_from_schema_1(fields) if version == 1 else fields), type=cls
            )
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            msg = f"finding cannot be read: {error}"
            raise DamagedError(msg) from error


def _from_schema_1(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of schema 1 in the form of schema 2.

    The divergence's `cause` and `nature` are not in such a file.
    """
    divergence = {name: fields[name] for name in (*Divergence.__struct_fields__, "detail") if name in fields}
    finding = {_RENAMED.get(name, name): value for name, value in fields.items()}
    return finding | {"divergence": divergence}


class _Uncovered(msgspec.Struct, frozen=True, array_like=True):
    """What schema 2 kept of a divergence that the ledger must know. Without an operator it may be any."""

    detail: str
    case: str
    operator: str = ""
    predicted: tuple[str, ...] = ()


def _from_schema_2(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of schema 2 in the form of this one."""
    divergence = fields.get("divergence")
    evidence = msgspec.convert(fields.get("evidence", {}), type=dict[str, str])
    changes: dict[str, Any] = {
        "divergence": with_facts(divergence),
        "evidence": {FORMER.get(name, name): text for name, text in evidence.items()},
        "schema": SCHEMA,
    }
    if fields.get("uncovered"):
        earlier = msgspec.convert(fields["uncovered"], type=_Uncovered)
        own = elsewhere(divergence, earlier.detail, operator=earlier.operator, predicted=earlier.predicted)
        changes["uncovered"] = {"divergence": own, "case": earlier.case}
    return {**fields, **changes}
