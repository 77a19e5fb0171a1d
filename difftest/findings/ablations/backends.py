"""Another door of the same side: the same layout by another of its APIs."""

from collections.abc import Iterator

from difftest.findings.ablations import Ablation, Asked

ORDER = 10


def ablations(asked: Asked) -> Iterator[Ablation]:
    """A fault that every door has is below them."""
    return (asked.changed(f"{sibling} runs it", backend=sibling) for sibling in asked.siblings)
