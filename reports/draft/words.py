"""The first words of a draft: what happens, what is expected, and which runs of the case are right."""

import re
from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.findings.titles import PASSES
from difftest.judge.divergence import Divergence
from difftest.judge.facts import Facts, KindsFacts, PropertyFacts, RemarkFacts
from difftest.judge.fingerprint import FAILURES
from difftest.judge.noise import FLOORS_MOST
from difftest.records.evidence import OTHER, SINGLE
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun
from reports.draft.readable import stated

FRAMEWORKS = ("torchax", "torch_tpu")
"""The frameworks whose backends have their name: no others use them."""

AGREES = "agrees"

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]*)", line \d+.*\n(?:    +.*\n)*', re.MULTILINE)
_OWN = re.compile(r"(?:^|/)(?:difftest|generators|workers|reports)/")
_CHECK = re.compile(r"(?P<place>[\w-]+\.(?:cc|h|cpp):\d+)\] (?P<check>Check failed: [^\n]*)")


def happens(finding: Finding, run: ReducedRun | None, ranks: str, what: str, backend: str) -> str:
    """What happens, with the versions: `what` is the finding's title.

    `backend` is what users call its backend, which the sentence names once. `run` is one of the case that the
    script is made of, which ran on `ranks`. Without it the sentence has no number, since those of the
    finding's first case are not the script's.
    """
    used = " and ".join(f"{name} {version}" for name, version in _used(finding))
    subject, colon, rest = what.partition(": ")
    where = f"on {ranks} with" if run else "with"
    if subject == backend and colon:
        where, what = f"{subject} {where}", rest
    else:
        where = where.capitalize()
    measured, ratio = (run.measurement, run.divergence.ratio) if run else (None, None)
    far = "" if measured is None else f", off by up to {measured.greatest:.3g}"
    noise = "" if ratio is None or ratio >= FLOORS_MOST else f", {ratio:.3g} x the rounding noise"
    return f"{where} {used or 'the versions below'}: {what}{far}{noise}."


def _used(finding: Finding) -> Iterator[tuple[str, str]]:
    """The packages that the finding's backend computes with, and their versions in its run."""
    shown = finding.divergence
    own = [name for name in FRAMEWORKS if name in shown.backend]
    names = ("torch",) if shown.side == "torch" else ("torch", *(own or ["torch_xla"]))
    for name in names:
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
    if shown.symptom in FAILURES:
        return "no error", ""
    printed = stated(output)
    return printed if printed[0] else _measured(shown.facts)


def _measured(facts: Facts | None) -> tuple[str, str]:
    match facts:
        case PropertyFacts(property=name, expected=expected, actual=actual):
            return f"{name} {expected}", actual
        case KindsFacts(count=count, expected=expected, actual=actual):
            return expected or EAGER, f"{count} values that are {actual}"
    return EAGER, ""


def expected(finding: Finding, shown: Divergence, output: str) -> str:
    """What is expected and what came, with the finding's numbers, and which runs of the case are right."""
    wanted, actual = expectation(shown, output)
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


def without_own_frames(text: str) -> str:
    """A traceback without the frames of difftest's own files, which tell a maintainer nothing."""
    return _FRAME.sub(lambda frame: "" if _own(frame["file"]) else frame[0], text)


def _own(file: str) -> bool:
    _, installed, below = file.rpartition("site-packages/")
    return bool(_OWN.match(below) if installed else _OWN.search(file))
