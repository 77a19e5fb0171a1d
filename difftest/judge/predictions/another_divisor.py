"""An average pool divides by another number of elements than by its `divisor_override`.

torch_xla scales an average over the elements that are there, from as many as the kernel has. Or the divisor
is that of an earlier call.
"""

import math

import numpy as np

from difftest.cases.layers.operator import Argument, Items
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

POOL = "nn.functional.avg_pool"

DIVISOR_AT = 6
"""Where `divisor_override` is among the arguments that are passed by position, after the operand."""

CLOSE = 1e-3
"""How far a number of elements may be from a whole one, relatively; half types round by more."""


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether each element is the right sum divided by another number of elements, or by another divisor."""
    call = _calls.call_at(run, at)
    divisor = _divisor(call) if call else None
    if at[1] is not Stage.FORWARD or not call or not call.function.startswith(POOL):
        return False
    if not isinstance(divisor, int) or not divisor:
        return False
    truth, floors, value = _calls.compared(run, at)
    decided = np.isfinite(floors)
    counts = decided & (value != 0.0) & (truth != 0.0)
    if not counts.any() or (decided & ((value != 0.0) != (truth != 0.0))).any():
        return False
    close = max(CLOSE, _calls.RELATIVE * _calls.roundoff(run))
    return any(_are_counts(of * truth[counts] / value[counts], close) for of in (divisor, _kernel(call)))


def _are_counts(numbers: Floats, close: float) -> bool:
    """Whether all are numbers of elements."""
    whole = np.round(numbers)
    return bool(((whole >= 1.0) & (np.abs(numbers - whole) <= close * whole)).all())


def _divisor(call: _calls.Call) -> Argument:
    """The divisor, passed by name or by position; None where there is none."""
    by_position = call.positional[DIVISOR_AT] if len(call.positional) > DIVISOR_AT else None
    return call.option("divisor_override") or by_position


def _kernel(call: "_calls.Call") -> int:
    """How many elements the kernel of a pool has."""
    sizes = (call.option("kernel_size"), *call.positional)
    size = next((one for one in sizes if isinstance(one, int | Items)), 1)
    dims = int(call.function.removeprefix(POOL).removesuffix("d"))
    whole = (
        [item for item in size.items if isinstance(item, int)] if isinstance(size, Items) else [size] * dims
    )
    return math.prod(whole)
