"""A divergence, what identifies it, and the finding that collects every case it was seen in.

The one idea: identity is free of numbers. A failure is the same wherever its type, its message without digits and the
framework's frame are the same, whatever layout led to it; a mismatch is the same where backend, path, check and stage
are, and the damage looks alike.
"""

import re
from typing import Annotated, TypeAlias

import msgspec

from difftest.judge.fingerprint import Fingerprint
from difftest.judge.outcome import Failure, Stage, Symptom

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that the tables can hold."""


_NUMBER = re.compile(r"-?0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[+-]?\d+)?")
_NUMBERS = re.compile(r"[\[(]?\s*#(\s*[,x]\s*#)*,?\s*[\])]?")
ARGUMENTS = r"args_schema=.*|\(\[?Spec\(.*"
"""DTensor's messages list an operator's arguments (newer torch without that name), shapes, placements and all: they differ by case."""

_WORDS = (
    (re.compile(ARGUMENTS), "args"),
    (re.compile(r"(/[\w.+-]+)+/"), ""),  # folders
    (re.compile(r"\bdifftest-\w+"), "difftest"),  # a run's own folder, where it is the last word
    (
        re.compile(r"\bbf(?=16\[)"),
        "f",
    ),  # XLA gives a shape with its type, as `bf16[4,8]` or `f32[4,8]`: the same fault in another type
    (re.compile(r"\bbfloat(?=16\b)"), "float"),
    (re.compile(r"\bBFloat16\b"), "Half"),
    (re.compile(r"(?<=\d)\[\]"), "[0]"),  # the shape of a number
    (re.compile(r"\bDeviceMesh\((?:[^()]|\([^()]*\))*\)"), "DeviceMesh"),
    (
        re.compile(r"[(\[](?:(?:_?[A-Z]\w*Shard|Shard|Replicate|_?\w*Partial)\([^()]*\)(?:, ?)?)+[)\]]"),
        "placements",
    ),
)
"""What cases write in their own way where the fault is the same: places, types, meshes, layouts."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a candidate parts from the oracle.

    `cause` identifies the fault beyond backend, path, check, symptom and stage: a failure's `identity`, empty for a mismatch, which has its
    `nature` (`difftest.judge.damage`) instead where there is a word for it.
    `ratio` is the greatest error in units of the noise floor, None where nothing was measured. `detail` is for people and never
    identifies.
    """

    backend: str
    side: str
    path: str
    check: str
    symptom: Symptom
    stage: Stage
    step: Whole = 0
    tensor: str = ""
    cause: str = ""
    nature: str = ""
    detail: str = ""
    log: str = ""
    ratio: float | None = None

    @property
    def fingerprint(self) -> str:
        """`backend-check-symptom-hash`: equal for equal faults, the hash in every environment of a backend.

        Failures do not depend on the path they were met on.
        """
        identifying = (self.cause,) if self.cause else filter(None, (self.path, self.stage, self.nature))
        return str(Fingerprint.of(self.backend, self.check, self.symptom, identifying))


def identity(failure: Failure) -> str:
    """What makes two failures the same one: kind, message and frame, without numbers, folders or addresses; a crash's stage too.

    A hang has no message of its own: which ranks had ended, when time was up, is chance.
    """
    where = (failure.stage,) if failure.symptom is Symptom.CRASH else ()
    message = "" if failure.symptom is Symptom.HANG else without_numbers(failure.message)
    return "\n".join((failure.kind, message, failure.frame.rpartition("/")[2], *where))


def without_numbers(text: str) -> str:
    """`text` without numbers, lists of numbers, and what else two cases write in their own way."""
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return _NUMBERS.sub("#", _NUMBER.sub("#", text)).strip()
