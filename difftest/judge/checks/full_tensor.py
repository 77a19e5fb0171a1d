"""Torch's own `full_tensor` gives what the ranks hold.

Everything else is judged by the pieces that the ranks hold, which the workers read by themselves. So an
operator that puts them together in a wrong order would not show elsewhere.
"""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 9
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for the first kind of tensors that is misread, see `difftest.judge.events.Events`."""
    for kind, difference in list(run.events.misread.items())[:1]:
        yield run.divergence(
            check="full_tensor",
            symptom=Symptom.MISMATCH,
            stage=Stage.UPDATE,
            tensor="",
            cause="full_tensor differs from the pieces of the ranks",
            facts=RemarkFacts(
                remark=f"full_tensor of {kind} differs by up to {difference:.3g} from what the ranks hold",
                placed=False,
            ),
        )
