"""In which releases of its package a fault was tried: maintainers ask for the newest one first."""

from collections.abc import Mapping
from dataclasses import dataclass

from difftest.findings.faults import NEWEST, fixed_in, release_order, tried_on
from difftest.records.finding import Finding, State

SHOWN: Mapping[State, str] = {"alive": "reproduces", "fixed": "does not reproduce", "unclear": "unclear"}
"""What an issue says of a release; `State` has the ledger's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """What the releases of the `package` whose maintainers read a draft showed of its fault.

    `package` is empty where the run did not report one of `NEWEST`. `tried` has a state for each release.
    `fixed` is the newest one, as `torch 2.15.0`, where the fault is fixed in it; empty where nobody knows.
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
