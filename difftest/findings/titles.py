"""The title of a finding: one line in the words of the tracker that it belongs to.

The page, the terminal and the issue drafts all show this one. It holds no fingerprint and no key of a file. A
known fault has the words of its entry in the ledger. Otherwise a failure has its exception's first sentence,
and wrong numbers have the tensor and what they look like.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from difftest.campaign.localise import place
from difftest.cases.case import Case
from difftest.findings.ledger import Ledger
from difftest.ground.plugins import IN, plain
from difftest.judge import damage
from difftest.judge.facts import NOT_FINITE, OTHER_KINDS, KindsFacts
from difftest.judge.fingerprint import FAILURES
from difftest.judge.outcome import Symptom
from difftest.judge.programs import LOST_ALIAS
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY
from difftest.records.finding import Finding

MOST_TITLE = 200
"""A longer sentence ends at its last clause before this many characters; one without a clause stays whole."""

SHORT = 40
"""A sentence of fewer characters says too little alone, so that the next one follows it."""

FRAMEWORK = "XLA"
"""The framework that names of several backends have as a word."""

MOST_NAMED = 3
"""How many of the backends that share a cause its title names."""

PASSES = {
    Stage.BUILD: "while the model is built",
    Stage.PLACE: "while parameters are placed",
    Stage.FORWARD: "in the forward pass",
    Stage.BACKWARD: "in the backward pass",
    Stage.UPDATE: "in the optimizer's step",
}
_NATURES = {
    damage.ZERO: "all zeros",
    damage.NEGATED: "with the wrong sign",
    damage.COUNTED: "off by a number of ranks",
    damage.SCALED: "off by a constant factor",
    damage.COARSE: "rounded as coarsely as bfloat16",
    damage.ALONE: "right on rank 0 alone",
    damage.UNMASKED: "right at the last position alone",
    damage.MOVED: "the elements of a parameter changed places",
    damage.LONELY: "on one rank alone",
    "ranks part": "not alike on all ranks",
    LOST_ALIAS: "a write to the view does not reach its base",
}
"""What the damage to a tensor looks like, in words for a title; other natures are words already."""

_KIND = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<message>.*)", re.DOTALL)
_LOGGED = re.compile(
    r"^[\d:. -]*(?:\b[EF][\d:. ]*)?(?:external/)?(?:[\w.-]+/)*(?P<file>[\w-]+\.(?:cc|h|cpp)):\d+\] "
)
"""How a log's line begins, in the words of torch_xla and of glog: time and place."""

_RULE = re.compile(r"\bOp\(op=(?P<name>[\w.]+?)(?:\.default)?,.*?@ mesh: \([\d, ]*\)\)[.,;:]*\s*", re.DOTALL)
_ASIDE = re.compile(
    r"(?:,? please report a bug.*)|(?: \(could this error message be improved.*)"
    r"|(?: at \"/[^\"]*\":\d+)|(?:\('(?=\w))|(?:',?\)$)",
    re.IGNORECASE,
)
"""What messages of torch say that is not about the failure, and what is left of a tuple."""

_TUPLE = re.compile(r"(?<=[ .!])', '(?=[A-Z])")
"""Between two strings that were raised as a tuple."""

_SENTENCE = re.compile(r"(?<=[a-zA-Z0-9\])}'\"])[.!?](?=\s+[A-Z]|$)")
_CLAUSE = re.compile(r"[;:,](?= )| (?=\()")


def title(finding: Finding, called: Mapping[str, str], reason: str = "") -> str:
    """The title of `finding`.

    `called` maps backends to what users call them (`workers.backends.titles`). `reason` is that of the
    ledger's entry about it, see `reason_of`; empty where there is none.
    """
    shown = finding.divergence
    what = reason or (_failure(finding) if shown.symptom in FAILURES else _mismatch(finding))
    name = spoken(shown.backend, called)
    return what if what.startswith(f"{name} ") else f"{name}: {what}"


def upstream_title(finding: Finding, called: Mapping[str, str], reason: str = "") -> str:
    """The title of `finding` for maintainers, to whom the names of our environments say nothing."""
    shown = replace(finding.divergence, backend=plain(finding.divergence.backend))
    return title(replace(finding, divergence=shown), called, reason)


def shared(text: str, backends: Sequence[str], called: Mapping[str, str]) -> str:
    """The title of a cause that several backends show: `text` is that of its first finding."""
    names = list(dict.fromkeys(spoken(backend, called) for backend in backends))
    before = next((name for name in names if text.startswith(f"{name}: ")), "")
    if len(names) == 1 or not before:
        return text
    if common := _common(names):
        return f"{common}{text.removeprefix(before)}"
    names.sort(key=lambda name: name != before)
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return f"{', '.join((*names[:MOST_NAMED], *more))}{text.removeprefix(before)}"


def _common(names: Sequence[str]) -> str:
    """What several names of backends have in common: the backend, or the framework; empty for neither.

    `XLA` of `DTensor annotation on XLA` and `XLA SPMD`, `DTensor` of `DTensor` and `DTensor (newest)`.
    """
    plainly = {name.partition(" (")[0] for name in names}
    if len(plainly) == 1:
        return plainly.pop()
    return FRAMEWORK if all(FRAMEWORK in name.replace('"', " ").upper().split() for name in plainly) else ""


def spoken(backend: str, called: Mapping[str, str]) -> str:
    """What users call a backend; one in an environment of its own has that in brackets."""
    name, _, environment = backend.partition(IN)
    return called.get(name, name) + (f" ({environment})" if environment else "")


def reason_of(finding: Finding, case: Case | None, ledger: Ledger) -> str:
    """The reason in the ledger's entry that made a finding known; empty where it is unknown."""
    entries = [entry for entry in ledger.entries if finding.upstream and entry.upstream == finding.upstream]
    shown, evidence = finding.divergence, finding.evidence
    matching = (entry for entry in entries if case is not None and entry.matches(shown, case, evidence))
    return next((entry.reason for entry in matching), entries[0].reason if len(entries) == 1 else "")


def sentence(message: str) -> str:
    """The first sentence of an exception's message, without the source line that raised it.

    A short one is followed by the next, and of a long one whole clauses are left.
    """
    line = _TUPLE.sub(" ", _LOGGED.sub(r"\g<file>: ", message.strip().partition("\n")[0]))
    text = " ".join(_ASIDE.sub("", line).split())
    ends = [place.start() for place in _SENTENCE.finditer(text)]
    text = text[: next((end for end in ends if end >= SHORT), len(text))].rstrip(" .;:,({[")
    if len(text) <= MOST_TITLE:
        return text
    clauses = [place.start() for place in _CLAUSE.finditer(text, 0, MOST_TITLE)]
    return text[: clauses[-1]] if clauses else text


def _failure(finding: Finding) -> str:
    """What an exception, a crash or a hang says."""
    shown, where = finding.divergence, PASSES[finding.divergence.stage]
    subject = shown.operator or (finding.operators[0] if len(finding.operators) == 1 else "")
    if shown.symptom is Symptom.HANG:
        return f"{subject} hangs {where}".lstrip()
    failure = shown.failure
    kind, message, frame = (
        (failure.kind, failure.message, failure.frame) if failure else (shown.symptom, shown.what, "")
    )
    if shown.symptom is Symptom.CRASH:
        why = f": {sentence(message)}" if "Check failed" in message else f", in {frame}" if frame else ""
        return f"{subject} dies of {kind} {where}{why}".lstrip()
    if rule := _RULE.search(message):
        message = message[rule.end() :] or message[: rule.start()]
        inner = _KIND.match(message)
        kind, message = (inner["kind"], inner["message"]) if inner else (kind, message)
        subject = _public(rule["name"])
    raises = f"{subject} raises {kind}" if subject else kind
    return f"{raises} {where}: {sentence(message)}".rstrip(": ")


def _public(operator: str) -> str:
    """What users call one of torch's operators: `view` for `aten._unsafe_view`, `pad` for `aten.pad.out`."""
    return operator.removeprefix("aten.").partition(".")[0].removeprefix("_").removeprefix("unsafe_")


def _mismatch(finding: Finding) -> str:
    """What is wrong with the results of a run that finished."""
    shown = finding.divergence
    if shown.symptom is Symptom.UNDEFINED:
        results = f"results of {shown.operator}" if shown.operator else "results"
        return f"{results} differ where torch leaves them open: {shown.left_open or sentence(shown.what)}"
    if shown.symptom is Symptom.NONFINITE:
        return _nonfinite(finding)
    if shown.ratio is None:
        subject = f"result of {shown.operator}" if shown.operator else shown.tensor
        clause = sentence(shown.what.partition(";")[0])
        return f"{subject}: {clause}" if subject else clause
    words = [word for word in shown.nature.split(", ") if word and word != shown.operator]
    how = ", ".join(_NATURES.get(word, word) for word in words)
    option = finding.evidence.get(DECIDED_BY, "").partition(".")[2]
    more = f" with {option}" if option and "(" not in option else ""
    return f"{_wrong(finding)}{more}" + (f": {how}" if how else "")


def _nonfinite(finding: Finding) -> str:
    """Which values are of another kind, and of which."""
    subject, facts = _wrong(finding).removeprefix("wrong "), finding.divergence.facts
    kinds = facts if isinstance(facts, KindsFacts) else KindsFacts(count=0, actual=NOT_FINITE)
    if kinds.expected:
        return f"{subject} has {kinds.actual} instead of {kinds.expected}"
    mixed = kinds.actual == OTHER_KINDS
    return f"{subject} has {'numbers, infinities or NaN in wrong places' if mixed else 'infinities or NaN'}"


def _wrong(finding: Finding) -> str:
    """Which numbers are wrong."""
    shown = finding.divergence
    inside = re.search(r"\((\w+)\)", place(finding.located))
    of = shown.operator or (inside[1] if inside else "")
    match shown.stage:
        case Stage.BACKWARD:
            return f"wrong gradient of {of or shown.tensor}"
        case Stage.UPDATE:
            return f"wrong operand of {of}" if shown.operator else f"wrong {shown.tensor} after the update"
        case _:
            what = "result" if shown.operator else shown.tensor.partition(".")[0]
            return f"wrong {what} of {of}" if of else f"wrong {what or 'numbers'}"
