"""Another backend of the same side: the same layout through another API."""

from collections.abc import Iterator

from difftest.findings.ablations import Ablation, Baseline

ORDER = 10


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """A fault that all of them have lies below them."""
    return (baseline.changed(f"{sibling} runs it", backend=sibling) for sibling in baseline.siblings)
