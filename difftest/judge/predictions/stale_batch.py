"""A backward pass is given an earlier batch: what is multiplied by the batch itself is wrong, and no more.

These are the gradients of the first layer, and those around what the host sends beside the batch, as masks.
The forward pass of that step is right. Which wrong numbers follow is not computed here.
"""

from difftest.judge.measured import Key, MeasuredRun, beyond
from difftest.judge.stage import Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether gradients of the first layer alone are wrong, in a part that is not the first of the run."""
    step, stage, _ = at
    case = run.case
    is_first = step == 0 and case.training.accumulation == 1
    if stage is not Stage.BACKWARD or is_first or case.model.is_program:
        return False
    wrong = [(of, name) for (n, of, name), one in run.measured.items() if n == step and beyond(one)]
    if any(of is Stage.FORWARD for of, _ in wrong):
        return False
    first = next(iter(case.layout.parameters), "").rpartition(".")[0] if case.model.own else "0"
    sent = bool(case.model.masked or case.model.segments)
    return sent or all(name.startswith(f"{first}.") for of, name in wrong if of is Stage.BACKWARD)
