"""Made-up divergences from the sentences that people read, which tests may cut short."""

import re
from typing import Any

import msgspec.structs

from difftest.judge.divergence import LEFT_OPEN, Divergence
from difftest.judge.facts import Facts, FailureFacts, KindsFacts, NumbersFacts, PropertyFacts, RemarkFacts
from difftest.judge.fingerprint import FAILURES
from difftest.judge.stage import Stage

PLACE = re.compile(r"(?:step (\d+), )?(?:(\w+), )?(?:rank (\d+)|([\w.]+)): ")
KIND = re.compile(r"((?:\w+\.)*\w*(?:Error|Exception)|SIG[A-Z]+): ?")
NUMBERS = re.compile(r"(\d+) / (\d+) elements(?:.*?greatest ([-+.\de]+))?", re.DOTALL)
KINDS = re.compile(r"(\d+) values are ([\w ]+?)(?: where the oracle's are ([\w ]+))?(?:(?:,| than) .*)?")
RATIO = re.compile(r" (\S+) x the rounding noise")
PROPERTY = re.compile(r"has (shape|dtype|placements) (.*), expected (.*)")


def replaced(shown: Divergence, detail: str | None = None, **fields: Any) -> Divergence:  # noqa: ANN401  as `msgspec.structs.replace`
    """A divergence with other fields, and what the sentence `detail` says of it: place and facts."""
    shown = msgspec.structs.replace(shown, **fields)
    if detail is None:
        return shown
    place = PLACE.match(detail)
    failed = shown.symptom in FAILURES
    if place and any(place.groups()[:3]):
        at = {"step": int(place[1] or 0), "stage": Stage(place[2]) if place[2] else shown.stage}
        at |= {} if place[3] else {"tensor": place[4]}
        shown = msgspec.structs.replace(shown, **at)
        detail = detail[place.end() :]
    what, _, left_open = detail.partition(LEFT_OPEN)
    facts = failure(what, shown.cause) if failed else mismatch(what, placed=place is not None)
    ratio = RATIO.search(what)
    more = {"ratio": float(ratio[1])} if ratio and not failed else {}
    return msgspec.structs.replace(shown, facts=facts, left_open=left_open, **more)


def failure(what: str, cause: str = "") -> FailureFacts:
    """How a run failed; without an exception's type it is a RuntimeError."""
    kind, frame = KIND.match(what), (cause.split("\n") + [""] * 3)[2]
    message = what[kind.end() :] if kind else what
    return FailureFacts(kind=kind[1] if kind else "RuntimeError", message=message, frame=frame)


def mismatch(what: str, *, placed: bool = True) -> Facts:
    """What is wrong with a run that finished."""
    if read := NUMBERS.match(what):
        differing, elements = int(read[1]), int(read[2])
        greatest = float(read[3] or 0.0)
        return NumbersFacts(differing=differing, elements=elements, greatest=greatest, scale=1.0, floor=1.0)
    if read := KINDS.fullmatch(what):
        return KindsFacts(count=int(read[1]), actual=read[2], expected=read[3] or "")
    if read := PROPERTY.fullmatch(what):
        return PropertyFacts(property=read[1], actual=read[2], expected=read[3])
    return RemarkFacts(remark=what, placed=placed)
