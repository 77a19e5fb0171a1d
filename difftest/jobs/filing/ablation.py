"""What a finding depends on, found out on a cluster and kept with it."""

from difftest.campaign.campaign import Campaign
from difftest.campaign.localise import LOCATED, locate
from difftest.findings.ablate import ablate
from difftest.jobs.ask.targets import FindingTarget
from difftest.records.finding import Finding


def ablated(campaign: Campaign, subject: FindingTarget) -> Finding | None:
    """Runs the ablations of a finding's simplest case, and keeps what they answer: the finding as it is then.

    None, and nothing is kept, where the unchanged case does not show the finding. The campaign's backends are
    those of `workers.backends.candidates`, and the finding's among them.
    """
    from workers.backends import candidates

    finding, case, backend = subject.finding, subject.case, subject.finding.divergence.backend
    answers = ablate(campaign, finding, case, candidates((backend,))[backend].environment(case))
    if answers is None:
        return None
    located = locate(campaign, case, backend) if finding.divergence.symptom in LOCATED else ()
    return subject.corpus.amend(finding.fingerprint, ablations=answers, located=located)
