"""A finding: a divergence with the first case that showed it, and how often it was measured since."""

from collections.abc import Mapping
from typing import Annotated, Self, TypeAlias

import msgspec

from difftest.errors import UsageError
from difftest.judge.divergence import Whole
from difftest.judge.outcome import Stage, Symptom

SCHEMA = 1


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""How often something was seen."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A divergence with the first case that showed it, and how often it was seen since.

    `paths` are all it was seen on. `blame` is a verdict in words (`difftest.judge.blame`), `evidence` what it rests on. `stable` is
    `[k, n]`: it came back in k of n repetitions in fresh processes. Times are ISO 8601 in UTC.

    `conditions` are what of the case with id `reduced` is necessary, in words (`difftest minimize`); empty where nothing was reduced.
    `ablations` say by the name of what was changed in that case what became of the finding, and `located` at which module it first shows,
    a line a direction (`difftest ablate`); empty where that was not asked.
    `status` is what `difftest triage` found when it last `checked`, and `returned` how often of how many times it came back then.

    `seen` counts the cases of each campaign that showed it, and `hits` are their sum. `untold` is the campaign and the case's index that
    found it, until somebody was told (`difftest.records.resume`). `upstream` is what the ledger knew of it when it was last told.
    """

    fingerprint: str
    symptom: Symptom
    stage: Stage
    backend: str
    side: str
    path: str
    check: str
    blame: str
    hits: Count
    case: str
    paths: tuple[str, ...] = ()
    evidence: Mapping[str, str] = {}
    step: Whole = 0
    tensor: str = ""
    ratio: float | None = None
    detail: str = ""
    log: str = ""
    stable: tuple[Count, Count] = (0, 0)
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
    seen: Mapping[str, Count] = {}
    untold: tuple[str, Whole] | None = None
    upstream: str = ""
    schema: int = SCHEMA

    def to_json(self) -> bytes:
        """Readable JSON, keys sorted."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The finding that `to_json` wrote; `UsageError` where it cannot be read or is too new."""
        try:
            schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("schema", msgspec.Raw(b"1"))
            if msgspec.json.decode(schema, type=int) > SCHEMA:
                msg = f"finding has schema {bytes(schema).decode()}; this program reads up to {SCHEMA}: it was written by a newer version"
                raise UsageError(msg)
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            msg = f"finding cannot be read: {error}"
            raise UsageError(msg) from error
