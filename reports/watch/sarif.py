"""`flips.sarif`: the flips as SARIF 2.1.0, which code hosts and editors show as alerts."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from difftest import __version__
from difftest.findings.flips import Became, Flip, Tried
from reports.watch.words import explanation, title

FILENAME = "flips.sarif"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Became.BROKEN: "error", Became.CHANGED: "warning", Became.FIXED: "note"}
RULES = {
    Became.BROKEN: "A release shows a fault that the one before it did not show.",
    Became.CHANGED: "A release fails in another way than the one before it.",
    Became.FIXED: "A release does not show a fault that the one before it showed.",
}


def render(flips: Sequence[Flip], _tried: Sequence[Tried], problems: Mapping[str, str]) -> bytes:
    """The file's content. Releases that could not be looked at are notifications of the run."""
    rules = [{"id": str(became), "shortDescription": {"text": text}} for became, text in RULES.items()]
    notifications = [
        {"level": "warning", "message": {"text": f"{release}: {reason}"}}
        for release, reason in problems.items()
    ]
    run = {
        "tool": {"driver": {"name": "difftest", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": not problems, "toolExecutionNotifications": notifications}],
        "results": [_result(flip) for flip in flips],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _result(flip: Flip) -> dict[str, Any]:
    place = {"uri": flip.after.script} if flip.after.script else None
    located = [{"physicalLocation": {"artifactLocation": place, "region": {"startLine": 1}}}] if place else []
    return {
        "ruleId": str(flip.became),
        "level": LEVELS[flip.became],
        "message": {"text": f"{title(flip)}. {explanation(flip)}"},
        "locations": located,
        "partialFingerprints": {"flip/v1": flip.identity},
    }
