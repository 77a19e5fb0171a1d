"""The first words of a draft: what happens, what is expected, and which runs of the case are right."""

import re
from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.findings.titles import PASSES
from difftest.ground.plugins import plain
from difftest.judge.divergence import Divergence
from difftest.judge.facts import Facts, KindsFacts, PropertyFacts, RemarkFacts
from difftest.judge.fingerprint import FAILURES
from difftest.judge.noise import FLOORS_MOST
from difftest.records.evidence import OTHER, SINGLE
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun
from reports.draft.readable import stated

FRAMEWORKS = {"torchax": "torchax", "tpu": "torch_tpu", "xla": "torch_xla", "torch": "torch"}
"""The framework of a backend, by the first word of its name."""

AGREES = "agrees"

_DIGITS = re.compile(r"-?\d+\.\d{9,}(?:e[-+]\d+)?")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
_VALUE = re.compile(r"(?=.*[\[{<_*])[-\d\[({'\"t]")
"""What Python prints of a value, where Markdown would act on it."""

_CHECK = re.compile(r"(?P<place>[\w-]+\.(?:cc|h|cpp):\d+)\] (?P<check>Check failed: [^\n]*)")


def happens(finding: Finding, run: ReducedRun | None, ranks: str, what: str, backend: str) -> str:
    """What happens, with the versions: `what` is the finding's title.

    `backend` is what users call its backend: it, or one word such as `DTensor`, begins a title before a
    colon, which the sentence has not. `run` is one of the case that the script is made of, which ran on
    `ranks`. Without it the sentence has no number, since those of the finding's first case are not the
    script's.
    """
    versions = [f"{name} {version}" for name, version in _used(finding)]
    used = " and ".join(versions) or "the versions below"
    subject, colon, rest = what.partition(": ")
    ran = f" on {ranks}" if run else ""
    if colon and (subject == backend or " " not in subject):
        what = f"{subject}{ran} with {used}: {rest}"
    elif run:
        what = f"On {ranks} with {used}: {what}"
    else:
        what = f"{what[:1].upper()}{what[1:]} ({used})"
    measured, ratio = (run.measurement, run.divergence.ratio) if run else (None, None)
    by = "by up to" if "off by" in rest else "off by up to"
    far = "" if measured is None else f", {by} {measured.greatest:.3g}"
    noise = "" if ratio is None or ratio >= FLOORS_MOST else f", {ratio:.3g} x the rounding noise"
    return f"{what}{far}{noise}."


def framework(shown: Divergence) -> str:
    """The package of a finding's backend, which its maintainers publish."""
    return FRAMEWORKS.get(plain(shown.backend).partition("_")[0], shown.side)


def _used(finding: Finding) -> Iterator[tuple[str, str]]:
    """The packages that the finding's backend computes with, and their versions in its run."""
    for name in dict.fromkeys(("torch", framework(finding.divergence))):
        if version := finding.environment.get(name, "").strip():
            yield name, version


def compiler_check(shown: Divergence) -> tuple[str, str]:
    """The check that failed in XLA's sources and its place; two empty texts where none did."""
    line = _CHECK.search(shown.what) or _CHECK.search(shown.log)
    return (line["check"].strip(), line["place"]) if line else ("", "")


def ranks(case: Case) -> str:
    """How many ranks a case has, and its mesh."""
    return f"{case.world_size} rank{'s' * (case.world_size != 1)} (mesh {case.layout.mesh})"


EAGER = "the result of eager torch on the CPU"


def expectation(shown: Divergence, output: str) -> tuple[str, str]:
    """What is expected, and what came instead: what the script printed, else what the run measured.

    The second is empty where other words say it, as a title does with an exception.
    """
    printed = stated(output)
    if printed[0]:
        return printed
    return ("no error", "") if shown.symptom in FAILURES else _measured(shown.facts)


def _measured(facts: Facts | None) -> tuple[str, str]:
    match facts:
        case PropertyFacts(property=name, expected=expected, actual=actual):
            return f"{name} {expected}", actual
        case KindsFacts(count=count, expected=expected, actual=actual):
            return expected or EAGER, f"{count} values that are {actual}"
    return EAGER, ""


def valued(*texts: str) -> tuple[str, ...]:
    """The texts with no more digits of a number than tell them apart, as code where Markdown would act."""
    short = [_DIGITS.sub(lambda number: f"{float(number[0]):.7g}", text) for text in texts]
    numbers, fewer = ({tuple(_NUMBER.findall(text)) for text in each} for each in (texts, short))
    shown = short if len(numbers) == len(fewer) else texts
    return tuple(f"`{text}`" if _VALUE.match(text) and "`" not in text else text for text in shown)


def expected(finding: Finding, shown: Divergence, output: str) -> str:
    """What is expected and what came, with the finding's numbers, and which runs of the case are right."""
    wanted, actual = valued(*expectation(shown, output))
    remark = shown.facts.remark if isinstance(shown.facts, RemarkFacts) and not actual else ""
    got = f", got {actual}" if actual else f". {shown.tensor}: {remark}" if remark else ""
    return f"Expected {wanted}{got}." + correct(finding, shown)


def correct(finding: Finding, shown: Divergence) -> str:
    """Which other runs of the case are right, as a sentence after another; empty where none is known."""
    right = [words for name, words in _runs(shown) if finding.evidence.get(name) == AGREES]
    return f" It is correct {' and '.join(right)}." if right else ""


def _runs(shown: Divergence) -> tuple[tuple[str, str], ...]:
    """What users call the two runs that may be right: the same on one device, and the other side's."""
    return (SINGLE, "on one device"), (OTHER, f"with {other_side(shown)} in the same layout")


def other_side(shown: Divergence) -> str:
    """What users call the side that a finding's backend is compared with."""
    return "torch_xla" if shown.side == "torch" else "torch's process groups"


def when(shown: Divergence) -> str:
    """The step and pass in which it shows."""
    return f"step {shown.step}, {PASSES[shown.stage]}"
