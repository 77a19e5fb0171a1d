"""A divergence, and what identifies it.

The one idea: identity is free of numbers. Two failures are the same if their type, their message without
digits and the framework's frame are the same, whatever layout led to them. Two mismatches are the same if
backend, path, check and stage are the same and the damage looks alike.
"""

import re
from collections.abc import Collection

import msgspec

from difftest.judge.facts import Facts, FailureFacts, Whole
from difftest.judge.fingerprint import Fingerprint
from difftest.judge.outcome import NO_MESSAGE, Failure, Symptom
from difftest.judge.stage import Stage
from difftest.judge.words import in_words, place

LEFT_OPEN = "; torch leaves open: "
"""What stands in a detail before the reason why numbers may differ, in the words of torch's documentation."""

_NUMBER = re.compile(r"-?0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[+-]?\d+)?")
_NUMBERS = re.compile(r"[\[(]?\s*#(\s*[,x]\s*#)*,?\s*[\])]?")
ARGUMENTS = r"args_schema=.*|\(\[?Spec\(.*"
"""The arguments of an operator in DTensor's messages (newer torch lists them without that name).

They have the case's shapes and placements, so they differ from case to case.
"""

_WORDS = (
    (re.compile(ARGUMENTS), "args"),
    (re.compile(r"(/[\w.+-]+)+/"), ""),  # folders
    (re.compile(r"\bdifftest-\w+"), "difftest"),  # a run's own folder, where it is the last word
    # XLA writes a shape with its type, as `bf16[4,8]` or `f32[4,8]`: the same fault in another type
    (re.compile(r"\bbf(?=16\[)"), "f"),
    (re.compile(r"\bbfloat(?=16\b)"), "float"),
    (re.compile(r"\bBFloat16\b"), "Half"),
    (re.compile(r"(?<=\d)\[\]"), "[0]"),  # the shape of a number
    (re.compile(r"\bDeviceMesh\((?:[^()]|\([^()]*\))*\)"), "DeviceMesh"),
    (
        re.compile(r"[(\[](?:(?:_?[A-Z]\w*Shard|Shard|Replicate|_?\w*Partial)\([^()]*\)(?:, ?)?)+[)\]]"),
        "placements",
    ),
)
"""What differs from case to case in the messages of one fault, such as folders, types, meshes and layouts,
with what replaces it.
"""


_OPERATORS = (
    # DTensor's call of an operator with its arguments; what the rule raised follows on the same line
    (re.compile(r"\bOp\(op=.*?@ mesh: \([\d, ]*\)\)"), "OP"),
    (re.compile(r"\b(torch\.ops\.)?aten(\.|::)\w+(\.\w+)?"), "OP"),
    (re.compile(r"\b[a-z_]\w*\(\)"), "OP()"),  # as `linear(): argument ...`
    (re.compile(r"[\"']\w+[\"'](?= not implemented for)"), "OP"),
    (re.compile(r"\b[A-Z]\w*Backward\d*\b"), "OP"),  # autograd's name of an operator's gradient
)
"""The names of operators in messages, with what replaces them."""

_MIXED = re.compile(r"\baten\.\w+\.\w+: got mixed torch\.Tensor and DTensor")
"""What DTensor says of an operator that is given a plain tensor, which torch made on its way.

Where torch made it is the fault, and the operator tells these places apart.
"""

CALLED = (
    *("torch/functional.py:", "torch/nn/functional.py:", "torch/_tensor.py:", "torch/_ops.py:"),
    *("torch/_refs/", "torch/masked/", "torch/special/"),
)
"""How the frames of functions begin that a program calls."""

_DTYPES = re.compile(
    r"\b(?:torch\.)?(?:b?float(?:16|32|64)|u?int(?:8|16|32|64)|complex(?:64|128)|bool)\b"
    r"|\b(?:pred|bf16|[fsuc](?:8|16|32|64|128))(?=\[)"
    r"|\b(?:c10::)?(?:Complex)?(?:Half|Float|Double|BFloat16|Long|Int|Short|Char|Byte|Bool)\b"
)
"""The names of dtypes in messages."""


LOG_BYTES = 2**16
"""How much of a log is kept, of its beginning and its end: reports hold all findings in memory."""


def shortened(log: str) -> str:
    """A log of at most `LOG_BYTES`, with a line that says how much of its middle was left out."""
    content = log.encode(errors="replace")
    if len(content) <= LOG_BYTES:
        return log
    half = LOG_BYTES // 2 - 64
    left_out = f"\n... {len(content) - 2 * half} bytes were left out here ...\n"
    head, tail = (part.decode(errors="ignore") for part in (content[:half], content[-half:]))
    return head + left_out + tail


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a candidate differs from the oracle.

    `cause` identifies the fault beyond backend, path, check, symptom and stage: the `identity` of a failure,
    or a text without numbers. A mismatch of numbers has no cause; its `nature` (`difftest.judge.damage`)
    identifies it where there is a word for it. `operator` names the operator of a program that is at
    fault, for grouping; the nature of a mismatch begins with it. `ratio` is the greatest error in units of
    the noise floor, None where nothing was measured. `facts` say what is wrong, None in records that do not
    say it, and `left_open` why torch's documentation leaves the numbers open, empty where it does not.
    `predicted` names the models of known faults that give the very numbers that were measured
    (`difftest.judge.predictions`). None of the three is part of the identity.
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
    operator: str = ""
    facts: Facts | None = None
    left_open: str = ""
    log: str = ""
    ratio: float | None = None
    predicted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Shortens the log of a divergence that is made, or read from a file."""
        if len(self.log) > LOG_BYTES // 4:  # a character has at most four bytes
            msgspec.structs.force_setattr(self, "log", shortened(self.log))

    @property
    def detail(self) -> str:
        """Where and what is wrong, in words for people."""
        if self.facts is None:
            return ""
        where = place(self.facts, self.step, self.stage, self.tensor)
        return where + self.what + (f"{LEFT_OPEN}{self.left_open}" if self.left_open else "")

    @property
    def failure(self) -> FailureFacts | None:
        """How the run failed; None where it finished."""
        return self.facts if isinstance(self.facts, FailureFacts) else None

    @property
    def what(self) -> str:
        """What is wrong, in words, without the place; empty where nothing says it."""
        return in_words(self.facts, self.ratio) if self.facts else ""

    @property
    def fingerprint(self) -> str:
        """`backend-check-symptom-digest`: equal for equal faults.

        The digest does not depend on the backend's environment. The fingerprint of a divergence with a
        `cause` does not depend on the path.
        """
        identifying = (self.cause,) if self.cause else filter(None, (self.path, self.stage, self.nature))
        return str(Fingerprint.of(self.backend, self.check, self.symptom, identifying))


def identity(failure: Failure, operators: Collection[str] = ()) -> str:
    """What identifies a failure: kind, message and frame, without numbers, folders or addresses.

    The stage of a crash identifies it too. The message of a hang is left out, because which ranks had ended
    when time was up is chance. So is the source line that stands in for a missing message: the frame names
    its function. Of the failure of a program of `operators` the message counts without names of operators
    and dtypes, except of what meets a plain tensor; without message and frame, the operator that ran
    identifies it. Beside a message a frame in one of `CALLED` does not count: it names what was called.
    """
    where: tuple[str, ...] = (failure.stage,) if failure.symptom is Symptom.CRASH else ()
    chance = failure.symptom is Symptom.HANG or failure.message.startswith(NO_MESSAGE)
    message, frame = "" if chance else failure.message, failure.frame.rpartition("/")[2]
    names = {*operators, *filter(None, [failure.operator])}
    if names and not _MIXED.search(message):  # many operators share a fault
        for name in sorted(names, key=len, reverse=True):  # one name may be part of another
            message = without_operators(message, name)
        message = _DTYPES.sub("DTYPE", message)
        where += (failure.operator,) if failure.operator and not (message or failure.frame) else ()
        frame = "" if message and failure.frame.startswith(CALLED) else frame
    return "\n".join((failure.kind, without_numbers(message), frame, *where))


def without_operators(text: str, operator: str = "") -> str:
    """`text` without names of operators: torch's overloads, functions, and `operator` itself."""
    for pattern, word in _OPERATORS:
        text = pattern.sub(word, text)
    name = operator.rpartition(".")[2]
    return re.sub(rf"\b{re.escape(name)}_?\b", "OP", text) if name else text


def without_numbers(text: str) -> str:
    """`text` without numbers, lists of numbers, and whatever else differs from case to case."""
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return _NUMBERS.sub("#", _NUMBER.sub("#", text)).strip()
