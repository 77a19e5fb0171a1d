"""What the tests on real devices ask of a run."""

from difftest import plugins
from difftest.cases.case import Case
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome
from workers.isolate import sandbox


def agrees(case: Case, backend: str, outcome: Outcome, deadline: float) -> bool:
    """Whether every check finds `outcome` as the oracle has it, which may take `deadline` seconds."""
    oracle = sandbox.run(case, "oracle", deadline=deadline)
    return (
        compare(case, backend, plugins.load("workers.backends", backend).SIDE, oracle, outcome).verdict
        == "agree"
    )
