"""The recorded support table: what backends refuse in a run, and how much of each path they can express.

A refusal that the table has is no gap in a campaign, and one that it does not have is: a backend that refuses
everything would otherwise look as one that was compared. Two things make up the table.

* `reachable.json` says for every operator of torch whether DTensor has a rule and torch_xla a kernel for it.
  A refusal that says that there is none is usual where that is so.
* `support.json` has the other refusals that recorded campaigns showed, by backend, by operator where a run
  names one, and by reason without numbers; and the share of each path's cases that each backend can express.

`python tools/support_table.py CORPUS...` writes `support.json`.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources

import msgspec

from difftest.ground.plugins import plain
from difftest.judge.capability import Lack
from difftest.records.reachable import KERNEL, RULE, reachable

FILE = "support.json"

CLAIMS = (
    (re.compile(r"does not have a sharding (strategy|rule)|no sharding (strategy|rule)"), RULE),
    (re.compile(r"falls back to the host"), KERNEL),
)
"""What a refusal says that there is none of, and the letter of the operators that have it."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a backend refuses in a run: the reason without numbers.

    `operator` is that of a program. It is empty where the whole case was refused, and where the run did not
    say which of its operators it was.
    """

    backend: str
    reason: str
    operator: str = ""


class Support(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The versions of the recorded campaigns, the refusals, and the shares by backend and path."""

    torch: str
    torch_xla: str
    refusals: tuple[Refusal, ...]
    shares: Mapping[str, Mapping[str, float]]


@functools.cache
def support() -> Support:
    """The table of the versions that the project uses."""
    content = resources.files(__package__).joinpath(FILE).read_bytes()
    return msgspec.json.decode(content, type=Support)


@functools.cache
def _refusals() -> frozenset[Refusal]:
    return frozenset(support().refusals)


def refusals(backend: str, reason: str, lacks: Sequence[Lack]) -> tuple[Refusal, ...]:
    """What one line says that its backend refuses, by operator where it says so."""
    name = plain(backend)
    each = tuple(Refusal(backend=name, reason=lack.reason, operator=lack.operator) for lack in lacks)
    return each or (Refusal(backend=name, reason=reason),)


def is_usual(backend: str, reason: str, lacks: Sequence[Lack]) -> bool:
    """Whether the table has a refusal of a backend: one of the things that the line lacks is enough."""
    return is_claimed(lacks) or not _refusals().isdisjoint(refusals(backend, reason, lacks))


def supported_share(backend: str, path: str) -> float | None:
    """The share of a path's cases that a backend can express; None where nobody recorded it."""
    return support().shares.get(plain(backend), {}).get(path)


def is_claimed(lacks: Sequence[Lack]) -> bool:
    """Whether one of the things that a line claims that there is none of is really missing."""
    operators = reachable().operators
    claimed = ((lack, name.partition(".")[0]) for lack in lacks for name in lack.overload.split(", "))
    return any(
        claim.search(lack.reason) and letter not in operators[name]
        for lack, name in claimed
        if name in operators
        for claim, letter in CLAIMS
    )
