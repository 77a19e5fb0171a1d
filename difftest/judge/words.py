"""The words for what is wrong, from its facts: one line, in the shape of `torch.testing`'s messages."""

from difftest.judge.facts import (
    OTHER_KINDS,
    Facts,
    FailureFacts,
    KindsFacts,
    NumbersFacts,
    PropertyFacts,
    RemarkFacts,
)
from difftest.judge.stage import Stage


def in_words(facts: Facts, ratio: float | None) -> str:
    """What is wrong, without the place; `ratio` is the greatest error in units of the rounding noise."""
    match facts:
        case FailureFacts():
            return f"{facts.kind}: {facts.message}"
        case NumbersFacts():
            return numbers(facts, ratio or 0.0) + (f"; {facts.damage}" if facts.damage else "")
        case KindsFacts():
            instead = f" where the oracle's are {facts.expected}" if facts.expected else ""
            than = " than the oracle's (numbers, infinities or NaN)" if facts.actual == OTHER_KINDS else ""
            return f"{facts.count} values are {facts.actual}{instead}{than}, on ranks {list(facts.ranks)}"
        case PropertyFacts():
            return f"has {facts.property} {facts.actual}, expected {facts.expected}"
        case RemarkFacts():
            return facts.remark


def numbers(facts: NumbersFacts, ratio: float) -> str:
    """How many elements of a tensor differ, and by how much."""
    share = facts.differing / max(facts.elements, 1)
    limit = "exact: none allowed" if facts.exact else f"{ratio:.3g} x the rounding noise {facts.floor:.2g}"
    return (
        f"{facts.differing} / {facts.elements} elements ({share:.1%}) differ; "
        f"greatest {facts.greatest:.4g}, {limit}; values are about {facts.scale:.3g}"
    )


def place(facts: Facts, step: int, stage: Stage, tensor: str) -> str:
    """Where it is wrong, up to the colon; empty for what is about the run."""
    if isinstance(facts, FailureFacts):
        again = "run again, it failed: " if facts.again else ""
        return f"{again}step {step}, {stage}, rank {facts.rank}: "
    of_run = isinstance(facts, RemarkFacts) and not facts.placed
    return "" if of_run else f"step {step}, {stage}, {tensor}: "
