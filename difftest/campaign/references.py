"""What references of another make say of a finding: they run its case's twin beside the oracle."""

from functools import partial

from difftest.campaign.again import rerun
from difftest.campaign.campaign import Campaign
from difftest.campaign.evidence import in_parallel
from difftest.cases.case import Case
from difftest.cases.twins import is_twin, twin
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.records.evidence import REFERENCES

AGREE, DIFFER = "agree with torch's float64", "differ from torch's float64: torch is wrong on every device"


def differ(campaign: Campaign, case: Case, divergence: Divergence) -> dict[str, bool]:
    """For each reference that decides, whether it differs from the oracle on the case's twin.

    Of a twin, the finding itself says it. A divergence that is no matter of numbers has none.
    """
    if is_twin(case):
        return {divergence.backend: True}
    own = twin(case)
    able = [name for name in sorted(campaign.references) if not campaign.backends[name].unsupported(own)]
    if divergence.ratio is None or not able:
        return {}
    compared = in_parallel(campaign, [partial(_compared, campaign, own, name) for name in able])
    decided = ((name, one) for name, one in zip(able, compared, strict=True) if one and one.decides)
    return {name: one.verdict != "agree" for name, one in decided}


def in_words(differing: dict[str, bool]) -> dict[str, str]:
    """The evidence in words; nothing where no reference decides."""
    groups = ((AGREE, False), (DIFFER, True))
    parts = [
        f"{', '.join(names)} {words}"
        for words, wanted in groups
        if (names := [name for name, differs in differing.items() if differs is wanted])
    ]
    return {REFERENCES: "; ".join(parts)} if parts else {}


def _compared(campaign: Campaign, case: Case, backend: str) -> Comparison | None:
    """The comparison of a reference with the oracle; None where the infrastructure failed."""
    try:
        return rerun(campaign, case, backend)
    except InfrastructureError:
        return None
