"""A program's results are what torch says on the host: their dtype, and whether they require a gradient."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.events import Fact
from difftest.judge.facts import MismatchFacts, PropertyFacts, RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 1
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each result with another fact; none for one that only one of the runs describes.

    A wrong dtype of a tensor that was read is the shape check's.
    """
    facts = run.events.facts
    read = {tensor for (_, stage, tensor), _ in run.tensors() if stage is Stage.FORWARD}
    for name, expected in run.expected.events.facts.items():
        if name in facts and (wrong := _wrong(expected, facts[name], was_read=name in read)):
            nature, unlike = wrong
            key = (0, Stage.FORWARD, name)
            yield run.tensor_divergence("result_facts", Symptom.MISMATCH, key, unlike, nature=nature)


def _wrong(expected: Fact, actual: Fact, *, was_read: bool) -> tuple[str, MismatchFacts] | None:
    """What is wrong, as a nature and as facts; None where nothing is."""
    if not actual.alike:
        return "ranks part", RemarkFacts(remark=f"is not alike on all ranks: {actual.dtype} on the first")
    if actual.requires_grad != expected.requires_grad:
        words = {True: "requires a gradient", False: "requires no gradient"}
        says = f"{words[actual.requires_grad]}, expected that it {words[expected.requires_grad]}"
        return words[actual.requires_grad], RemarkFacts(remark=says)
    if not was_read and actual.dtype != expected.dtype:
        unlike = PropertyFacts(property="dtype", actual=actual.dtype, expected=expected.dtype)
        return "dtype", unlike
    return None
