"""Arguments that torch rejects on the host are rejected everywhere."""

from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence, without_numbers
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Failure, Symptom

ORDER = 0
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence where the oracle rejected the arguments and the run finished.

    Torch's documentation may leave open what happens, as at indices out of range.
    """
    rejection = run.rejection
    if rejection is None or isinstance(run.actual, Failure):
        return
    rejecting = next((layer.title for layer in run.case.model.layers if layer.rejects), "")
    operator, raised = rejection.operator or rejecting, f"{rejection.kind}: {rejection.message}"
    yield run.divergence(
        check="rejection",
        symptom=Symptom.UNDEFINED if run.case.model.undefined else Symptom.MISMATCH,
        stage=rejection.stage,
        cause=f"{operator} accepts what torch rejects\n{without_numbers(raised)}",
        operator=operator,
        facts=RemarkFacts(
            remark=f"{operator} finishes; torch rejects its arguments on the host: {raised}", placed=False
        ),
    )
