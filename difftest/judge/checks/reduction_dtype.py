"""Gradients are added up in the dtype that FSDP's mixed precision has for it.

A gradient that was rounded to bfloat16 before it was added up is off by no more than the bfloat16 computation
before, so that its numbers show nothing.
"""

from collections.abc import Iterator

from difftest.cases.feature import of
from difftest.cases.features import mixed_precision
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 9
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence where some were added up in a coarser dtype, see `difftest.judge.events.Events`."""
    mixed = of(run.case, mixed_precision.Options)
    coarse = run.events.reduced.get("bfloat16", 0)
    if mixed and mixed.reduce == "float32" and coarse:
        yield run.divergence(
            check="reduction_dtype",
            symptom=Symptom.MISMATCH,
            stage=Stage.BACKWARD,
            tensor="",
            cause="gradients are added up in another dtype",
            facts=RemarkFacts(
                remark=f"gradients were added up in bfloat16 {coarse} times; reduce_dtype is float32",
                placed=False,
            ),
        )
