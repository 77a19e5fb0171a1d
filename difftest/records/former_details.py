"""The facts in records of earlier versions, which kept what is wrong as a sentence. Nothing else parses one.

A sentence is read only where its facts give the same sentence again. Any other stays as it is, as a remark.
"""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from difftest.judge.divergence import LEFT_OPEN
from difftest.judge.facts import (
    Facts,
    FailureFacts,
    KindsFacts,
    NumbersFacts,
    PropertyFacts,
    RemarkFacts,
    Whole,
)
from difftest.judge.fingerprint import FAILURES
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.judge.words import in_words, place

_FAILURE = re.compile(
    r"(?P<again>run again, it failed: )?step \d+, \w+, rank (?P<rank>\d+): (?P<kind>[^:]+): (?P<message>.*)",
    re.DOTALL,
)
_NUMBERS = re.compile(
    r"(?P<differing>\d+) / (?P<elements>\d+) elements \([\d.]+%\) differ; greatest (?P<greatest>[^ ,]+), "
    r"(?:(?P<exact>exact: none allowed)|\S+ x the rounding noise (?P<floor>[^ ;]+))"
    r"; values are about (?P<scale>[^ ;]+)(?:; (?P<damage>.*))?"
)
_KINDS = re.compile(
    r"(?P<count>\d+) values are (?P<actual>[\w ]+?)(?: where the oracle's are (?P<expected>[\w ]+))?"
    r"(?: than the oracle's \([\w, ]+\))?, on ranks \[(?P<ranks>[\d, ]*)\]"
)
_PLACE = re.compile(
    r"(?:run again, it failed: )?step (?P<step>\d{1,9}), \w+, (?:rank \d+|(?P<tensor>[^:]+)): "
)
_PROPERTY = re.compile(r"has (?P<property>shape|dtype|placements) (?P<actual>.*), expected (?P<expected>.*)")


class _Former(msgspec.Struct, frozen=True):
    """What the facts of a divergence are read from."""

    symptom: Symptom
    stage: Stage
    step: Whole = 0
    tensor: str = ""
    cause: str = ""
    ratio: float | None = None
    detail: str = ""


def with_facts(divergence: object) -> dict[str, Any]:
    """A divergence as JSON with the facts that its sentence gives; one that has facts already as it is.

    `msgspec.ValidationError` for what is no divergence.
    """
    former = msgspec.convert(divergence, type=_Former)
    fields = msgspec.convert(divergence, type=dict[str, Any])
    fields.pop("detail", None)
    detail, _, left_open = former.detail.partition(LEFT_OPEN)
    if not detail:
        return fields
    where = former.step, former.stage, former.tensor
    what = detail.removeprefix(place(RemarkFacts(remark=""), *where))
    try:
        facts = _failure(former, detail) or _mismatch(what)
    except ValueError:  # of a number that is none
        facts = RemarkFacts(remark=what)
    if place(facts, *where) + in_words(facts, former.ratio) != detail:
        facts = RemarkFacts(remark=detail, placed=False)
    return fields | {"facts": msgspec.to_builtins(facts), "left_open": left_open}


def elsewhere(divergence: object, detail: str, **changes: object) -> dict[str, Any]:
    """The divergence as JSON with changes, at the step and the tensor that another sentence of it names."""
    read = _PLACE.match(detail)
    at = {"step": int(read["step"]), "tensor": read["tensor"] or ""} if read else {}
    fields = msgspec.convert(divergence, type=dict[str, Any])
    return with_facts({**fields, **changes, **at, "detail": detail})


def _failure(former: _Former, detail: str) -> FailureFacts | None:
    read = _FAILURE.fullmatch(detail)
    if read is None or former.symptom not in FAILURES:
        return None
    return FailureFacts(
        kind=read["kind"],
        message=read["message"],
        frame=(former.cause.split("\n") + [""] * 3)[2],
        rank=int(read["rank"]),
        again=bool(read["again"]),
    )


def _mismatch(what: str) -> Facts:
    if read := _NUMBERS.fullmatch(what):
        return NumbersFacts(
            differing=int(read["differing"]),
            elements=int(read["elements"]),
            greatest=float(read["greatest"]),
            scale=float(read["scale"]),
            floor=float(read["floor"] or 0.0),
            exact=bool(read["exact"]),
            damage=read["damage"] or "",
        )
    if read := _KINDS.fullmatch(what):
        ranks = tuple(map(int, filter(None, read["ranks"].split(", "))))
        return KindsFacts(
            count=int(read["count"]), actual=read["actual"], expected=read["expected"] or "", ranks=ranks
        )
    if read := _PROPERTY.fullmatch(what):
        return PropertyFacts(**read.groupdict())
    return RemarkFacts(remark=what)


FORMER = "tests/upstream/"
"""What names of known faults begin with in earlier versions.

Until November 2026 a script there had several faults, and took a name as its argument:
`tests/upstream/usual_forms_on_dtensor.py mse_loss`.
"""


def current_name(upstream: str) -> str:
    """The issue or script that stands for `upstream` now; the same where nothing has replaced it."""
    return names().get(upstream, upstream) if upstream.startswith(FORMER) else upstream


@lru_cache(maxsize=1)
def names() -> dict[str, str]:
    """The names of known faults in earlier versions, with the present ones."""
    return dict(json.loads(Path(__file__).with_name("former_names.json").read_text()))
