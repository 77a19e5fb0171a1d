"""In which releases of its package a fault was tried: maintainers ask for the newest one first."""

from collections.abc import Mapping

from difftest.findings.faults import NEWEST, age, fixed_in, tried_on
from difftest.records.finding import Finding, State
from reports.draft.tracker import tracker


def package(finding: Finding) -> str:
    """The package whose maintainers read the draft; empty where the run did not report one of `NEWEST`."""
    if tracker(finding) == "pytorch":
        return "torch"
    return next((name for name in NEWEST if name != "torch" and name in finding.environment), "")


def tried(finding: Finding) -> Mapping[str, State]:
    """What each release of its package showed.

    Alive in that of its own run, else what `bisect` found, else what the list of faults says of its script.
    """
    name = package(finding)
    own = finding.environment.get(name, "").partition("+")[0]
    others = {
        release.removeprefix(f"{name} "): state
        for release, state in finding.releases.items()
        if release.startswith(f"{name} ")
    }
    listed = tried_on(finding.upstream, name) if finding.upstream else {}
    return {**listed, **others, **({own: "alive"} if own else {})}


def untried(finding: Finding) -> str:
    """The newest release, as `torch 2.15.0`, where the finding was not tried on it; empty where it was."""
    name = package(finding)
    return f"{name} {NEWEST[name]}" if name and NEWEST[name] not in tried(finding) else ""


def fixed(finding: Finding) -> str:
    """The newest release, as `torch 2.15.0`, where the fault is fixed in it; empty where nobody knows."""
    name = package(finding)
    if name and tried(finding).get(NEWEST[name]) == "fixed":
        return f"{name} {NEWEST[name]}"
    return fixed_in(finding.upstream) if finding.upstream else ""


def described(finding: Finding) -> str:
    """The releases in one line: `2.9.0: alive, 2.15.0: not tried`."""
    newest = untried(finding).partition(" ")[2]
    states = {**tried(finding), **({newest: "not tried"} if newest else {})}
    return ", ".join(f"{release}: {states[release]}" for release in sorted(states, key=age))
