"""Where a finding first shows: the first module whose output, or gradient, is off by more than rounding.

The oracle, with more samples of its rounding noise, and the candidate run once more with
`DIFFTEST_TRACE_MODULES=1`, which keeps every module's tensors; only findings pay for that. A module is an
operator of the model, or a block of them. The layout does not say how an activation inside of the model is
sharded: under tensor parallelism a rank holds a slice of its width. Such a tensor is not compared, and
counted.
"""

from difftest.campaign.campaign import ORACLE, Campaign, run_backend
from difftest.campaign.case_run import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.judge.measured import Key, MeasuredRun, beyond, describe, measure_run
from difftest.judge.outcome import Failure
from difftest.judge.stage import Stage

VARIABLE = "DIFFTEST_TRACE_MODULES"
"""The environment variable that makes workers keep every module's tensors."""

MODULE = "module "
"""How the names of such tensors begin.

The module's path follows, and for later accumulation parts their number.
"""


def locate(campaign: Campaign, case: Case, backend: str) -> tuple[str, ...]:
    """The first module beyond rounding in the forward and in the backward pass, in words.

    Empty if either run fails.

    `InfrastructureError` where a run could not be had.
    """
    truth = run_backend(campaign, case, ORACLE, {**MORE_SAMPLES, VARIABLE: "1"}).outcome
    actual = run_backend(campaign, case, backend, {VARIABLE: "1"}).outcome
    if isinstance(truth, Failure) or isinstance(actual, Failure):
        return ()
    side = campaign.backends[backend].SIDE
    run = measure_run(case, backend, side, truth, actual, exact=inexact(case) is None)
    return tuple(line for stage in (Stage.FORWARD, Stage.BACKWARD) if (line := first_beyond(run, stage)))


def first_beyond(run: MeasuredRun, stage: Stage) -> str:
    """The first module of one stage that is beyond rounding, in the oracle's order, in words.

    Empty if none was traced.
    """
    traced = [
        (step, at, name)
        for step, tensors in enumerate(run.expected.steps)
        for at, name in tensors
        if name.startswith(MODULE)
    ]
    keys = [key for key in traced if key[1] is stage]
    if not keys:
        return ""
    compared = [key for key in keys if key in run.measured]
    missing = len(keys) - len(compared)
    rest = f"; {missing} of {len(keys)} could not be compared" if missing else ""
    for number, key in enumerate(compared):
        if beyond(run.measured[key]):
            before = "the first of all"
            if number:
                before = f"after {called(run.case, compared[number - 1])}, which agrees"
            place = f"{called(run.case, key)}, {before}"
            return f"{stage}, step {key[0]}: {place}: {describe(run.measured[key])}{rest}"
    return f"{stage}: no module is beyond rounding{rest}"


def called(case: Case, key: Key) -> str:
    """A module with its kind, `module 1.0 (Linear)`.

    A part of a layer with the layer's, `module 2.q (of Attention)`. A module of the user's has its classes.
    """
    name = key[2]
    path = name.removeprefix(MODULE).partition(" ")[0]
    kinds = {at: type(layer).__name__ for at, layer in walk(case.model.layers)}
    if case.model.own:
        kinds |= {f"0.{at}": title for at, title in case.model.own.modules.items() if at}
    return (
        f"{name} ({kinds[path]})"
        if path in kinds
        else f"{name} (of {kinds.get(path.rpartition('.')[0], 'the model')})"
    )
