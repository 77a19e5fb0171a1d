"""A program whose shapes do not change is compiled in its first steps and then never again.

XLA's lazy tensors settle with the second step: what the first one leaves behind (updated parameters,
optimizer state) enters the next as plain inputs. `DistributedDataParallel` reorders its buckets after the
first step, and settles with the third. A program that compiles a new graph at every step trains as well, and
a hundred times slower. A user's model that reads numbers has graphs that depend on them.
"""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.events import SETTLED_STEP
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 4
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence at the first settled step that compiles; nothing where no graphs were counted."""
    own = run.case.model.own
    graphs = [] if own and own.reads else list(run.events.graphs)
    for step in range(SETTLED_STEP, len(graphs)):
        if graphs[step] > graphs[step - 1]:
            yield run.divergence(
                check="recompile",
                symptom=Symptom.MISMATCH,
                stage=Stage.UPDATE,
                step=step,
                cause="compiles at a settled step",
                facts=RemarkFacts(
                    remark=f"step {step}: {graphs[step] - graphs[step - 1]} new graphs; "
                    f"compiled by the end of each step: {graphs}",
                    placed=False,
                ),
            )
            return
