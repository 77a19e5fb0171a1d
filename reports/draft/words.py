"""The first words of a draft: what happens, and what is expected, a sentence each."""

import re
from collections.abc import Iterator

from difftest.cases.case import Case
from difftest.findings.titles import PASSES
from difftest.judge.divergence import Divergence
from difftest.judge.fingerprint import FAILURES
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.outcome import Symptom
from difftest.records.evidence import OTHER, SINGLE
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun

FRAMEWORKS = ("torchax", "torch_tpu")
"""The frameworks whose backends have their name: no others use them."""

AGREES = "agrees"

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]*)", line \d+.*\n(?:    +.*\n)*', re.MULTILINE)
_OWN = re.compile(r"(?:^|/)(?:difftest|generators|workers|reports)/")


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


def ranks(case: Case) -> str:
    """How many ranks a case has, and its mesh."""
    return f"{case.world_size} rank{'s' * (case.world_size != 1)} (mesh {case.layout.mesh})"


def expected(finding: Finding, shown: Divergence, tolerance: str) -> str:
    """What is expected instead, and which runs of the case give it."""
    if shown.symptom in FAILURES:
        result = "the program ends without an error"
    elif shown.symptom is Symptom.MISMATCH and tolerance:
        result = f"the values of eager torch on the CPU in float64, within rounding ({tolerance})"
    else:
        result = "the result of eager torch on the CPU"
    right = [words for name, words in _runs(shown) if finding.evidence.get(name) == AGREES]
    return f"Expected: {result}" + (f", as {' and '.join(right)}." if right else ".")


def _runs(shown: Divergence) -> tuple[tuple[str, str], ...]:
    """What users call the two runs that may be right: the same on one device, and the other side's."""
    return (SINGLE, "on one device"), (OTHER, f"by {other_side(shown)} in the same layout")


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
