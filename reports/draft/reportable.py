"""Whether a finding may be reported, to whose tracker, and in which releases its fault was tried."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from difftest.findings.faults import NEWEST, fixed_in, release_order, reported_at, tried_on
from difftest.findings.triage import Status
from difftest.judge.blame import beneath
from difftest.judge.outcome import Symptom
from difftest.records.evidence import REPLAYED
from difftest.records.finding import STABLE_LEAST, Finding, State

COMPILER = re.compile(r"\bF(?:\d{4} [^\]\n]*)? external/xla/")
"""The line with which XLA's own sources end a process.

torch_xla writes `<time>: F external/...`, glog `F0000 <time> ...`. Warnings (`W external/xla/...`) are in the
logs of other crashes too.
"""

SHOWN: Mapping[State, str] = {"alive": "reproduces", "fixed": "does not reproduce", "unclear": "unclear"}
"""What an issue says of a release; `State` has the ledger's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """What the releases of the `package` whose maintainers read a draft showed of its fault.

    Maintainers ask for the newest one first. `package` is empty where the run did not report one of `NEWEST`.
    `tried` has a state for each release. `fixed` is the newest one, as `torch 2.15.0`, where the fault is
    fixed in it; empty where nobody knows.
    """

    package: str
    tried: Mapping[str, State]
    fixed: str

    @property
    def untried(self) -> str:
        """The newest release where the fault was not tried on it; empty where it was."""
        return newest if (newest := NEWEST.get(self.package, "")) not in self.tried else ""

    @property
    def described(self) -> str:
        """The releases in one line: `2.9.0: reproduces, 2.15.0: not tried`."""
        states = {release: SHOWN[state] for release, state in self.tried.items()}
        states |= {self.untried: "not tried"} if self.untried else {}
        return ", ".join(f"{release}: {states[release]}" for release in sorted(states, key=release_order))


def releases_of(finding: Finding) -> Releases:
    """The releases of a finding's package.

    A release of which the finding's own run says that it is alive, else what `bisect` found, else what the
    list of faults says of its script.
    """
    own = (name for name in NEWEST if name != "torch" and name in finding.environment)
    package = "torch" if finding.divergence.side == "torch" else next(own, "")
    run = finding.environment.get(package, "").partition("+")[0]
    bisected = {
        release.removeprefix(f"{package} "): state
        for release, state in finding.releases.items()
        if release.startswith(f"{package} ")
    }
    listed = tried_on(finding.upstream, package) if finding.upstream else {}
    tried: dict[str, State] = {**listed, **bisected, **({run: "alive"} if run else {})}
    newest = NEWEST.get(package, "")
    if newest and tried.get(newest) == "fixed":
        fixed = f"{package} {newest}"
    else:
        fixed = fixed_in(finding.upstream) if finding.upstream else ""
    return Releases(package=package, tried=tried, fixed=fixed)


def refusal(finding: Finding, releases: Releases) -> str | None:
    """Why a finding must not be drafted, or None.

    Maintainers should neither look for what comes and goes nor get a report twice, nor one of what they have
    mended. A fault that is known only by a script has not been reported yet.
    """
    if releases.fixed:
        return f"it is fixed in {releases.fixed}, the newest release"
    if issue := reported_at(finding.upstream):
        return f"it is reported already: {issue}"
    back, times = finding.repeats
    if not times:
        return "it was never repeated in fresh processes"
    if not finding.steady:
        unstable = f"it is unstable: reproduced {back} of {times}"
        return f"{unstable}; a draft needs a share of at least {STABLE_LEAST:.2g}"
    if finding.status not in {"", Status.REPRODUCED}:
        return f"the last triage found it {finding.status}; a draft needs {Status.REPRODUCED}"
    return None


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
