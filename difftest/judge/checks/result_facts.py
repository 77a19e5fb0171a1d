"""A program's results are what torch says on the host: their dtype, and whether they require a gradient."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.events import Fact
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
            nature, detail = wrong
            key = (0, Stage.FORWARD, name)
            yield run.tensor_divergence("result_facts", Symptom.MISMATCH, key, detail, nature=nature)


def _wrong(expected: Fact, actual: Fact, *, was_read: bool) -> tuple[str, str] | None:
    """What is wrong, as a nature and as a message; None where nothing is."""
    if not actual.alike:
        return "ranks part", f"is not alike on all ranks: {actual.dtype} on the first"
    if actual.requires_grad != expected.requires_grad:
        words = {True: "requires a gradient", False: "requires no gradient"}
        says = f"{words[actual.requires_grad]}, expected that it {words[expected.requires_grad]}"
        return words[actual.requires_grad], says
    if not was_read and actual.dtype != expected.dtype:
        return "dtype", f"has dtype {actual.dtype}, expected {expected.dtype}"
    return None
