"""Which tracker a finding belongs to."""

import re

from difftest.judge.blame import beneath
from difftest.judge.outcome import Symptom
from difftest.records.evidence import REPLAYED
from difftest.records.finding import Finding

COMPILER = re.compile(r"\bF(?:\d{4} [^\]\n]*)? external/xla/")
"""The line with which XLA's own sources end a process.

torch_xla writes `<time>: F external/...`, glog `F0000 <time> ...`. Warnings (`W external/xla/...`) are in the
logs of other crashes too.
"""


def tracker(finding: Finding) -> str:
    """The tracker of the project that is at fault by the evidence: `pytorch`, `xla` or `openxla`.

    The compiler (`openxla`) is at fault where the process died inside of it, where its HLO is wrong without
    torch_xla too, or where another framework shows the same fault.
    """
    divergence = finding.divergence
    if divergence.side == "torch":
        return "pytorch"
    texts = (divergence.detail, divergence.log)
    dies = divergence.symptom is Symptom.CRASH and any(COMPILER.search(text) for text in texts)
    persists = finding.evidence.get(REPLAYED, "").startswith("diverges")
    return "openxla" if dies or persists or beneath(finding.evidence) else "xla"


def repeats(finding: Finding) -> tuple[int, int]:
    """In how many of how many runs a finding came back: in its last triage, else when it was new."""
    return finding.returned if finding.returned[1] else finding.stable
