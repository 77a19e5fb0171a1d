"""Whether a finding may be drafted at all."""

from difftest.findings.faults import reported_at
from difftest.findings.triage import STABLE_LEAST, Status, steady
from difftest.records.finding import Finding
from reports.draft.releases import Releases, releases_of
from reports.draft.tracker import repeats


def refusal(finding: Finding, releases: Releases | None = None) -> str | None:
    """Why a finding must not be drafted, or None.

    Maintainers should neither look for what comes and goes nor get a report twice, nor one of what they have
    mended. A fault that is known only by a script has not been reported yet. `releases` are those of the
    finding, where they are at hand.
    """
    if release := (releases or releases_of(finding)).fixed:
        return f"it is fixed in {release}, the newest release"
    if issue := reported_at(finding.upstream):
        return f"it is reported already: {issue}"
    back, times = repeats(finding)
    if not times:
        return "it was never repeated in fresh processes"
    if not steady(finding):
        unstable = f"it is unstable: reproduced {back} of {times}"
        return f"{unstable}; a draft needs a share of at least {STABLE_LEAST:.2g}"
    if finding.status not in {"", Status.REPRODUCED}:
        return f"the last triage found it {finding.status}; a draft needs {Status.REPRODUCED}"
    return None
