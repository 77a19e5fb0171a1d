"""The facts in records of earlier versions, which kept what is wrong as a sentence. Nothing else parses one.

A sentence is read only where its facts give the same sentence again. Any other stays as it is, as a remark.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from difftest.judge.divergence import LEFT_OPEN
from difftest.judge.facts import Facts, FailureFacts, KindsFacts, NumbersFacts, PropertyFacts, RemarkFacts
from difftest.judge.fingerprint import FAILURES
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
_PLACE = re.compile(r"(?:run again, it failed: )?step (?P<step>\d+), \w+, (?:rank \d+|(?P<tensor>[^:]+)): ")
_PROPERTY = re.compile(r"has (?P<property>shape|dtype|placements) (?P<actual>.*), expected (?P<expected>.*)")


def with_facts(divergence: Mapping[str, Any]) -> dict[str, Any]:
    """A divergence as JSON with the facts that its sentence gives; one that has facts already as it is."""
    fields = dict(divergence)
    detail, _, left_open = str(fields.pop("detail", "")).partition(LEFT_OPEN)
    if not detail:
        return fields
    where = fields.get("step", 0), fields["stage"], fields.get("tensor", "")
    ratio = fields.get("ratio")
    for facts in (
        _failure(fields, detail),
        _mismatch(detail.removeprefix(place(RemarkFacts(remark=""), *where))),
    ):
        if facts and place(facts, *where) + in_words(facts, ratio) == detail:
            break
    else:
        facts = RemarkFacts(remark=detail, placed=False)
    return fields | {"facts": msgspec.to_builtins(facts), "left_open": left_open}


def elsewhere(divergence: Mapping[str, Any], detail: str, **changes: object) -> dict[str, Any]:
    """The divergence as JSON with changes, at the step and the tensor that another sentence of it names."""
    read = _PLACE.match(detail)
    at = {"step": int(read["step"]), "tensor": read["tensor"] or ""} if read else {}
    return with_facts({**divergence, **changes, **at, "detail": detail})


def _failure(fields: Mapping[str, Any], detail: str) -> FailureFacts | None:
    read = _FAILURE.fullmatch(detail)
    if read is None or fields["symptom"] not in FAILURES:
        return None
    frame = (str(fields.get("cause", "")).split("\n") + [""] * 3)[2]
    return FailureFacts(
        kind=read["kind"],
        message=read["message"],
        frame=frame,
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
