"""The numbers in a script: the case's own if they are few, otherwise how torch draws numbers of the kind."""

import math
from collections.abc import Sequence
from typing import Literal

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers import walk
from reports.reproducer import spelling

MOST, MOST_STEPS = 16, 2
"""The most numbers of a tensor and the most steps that a script lists; in all, four times as many numbers."""


def few(case: Case, steps: int) -> bool:
    """Whether a script may list the numbers of `steps` steps."""
    sizes = [math.prod(shape) for shape in case.model.parameters().values()]
    if steps > MOST_STEPS or max(sizes) > MOST:
        return False
    drawn = [numbers.batch(case, step) for step in range(steps)]
    sizes += [array.size for batch in drawn for array in (batch.inputs, batch.targets)]
    return max(sizes) <= MOST and sum(sizes) <= 4 * MOST


def weights(case: Case) -> str:
    """The initial parameters by name, as a dict."""
    return spelling.table(
        {name: spelling.numbers(values, case.dtype) for name, values in numbers.weights(case).items()}
    )


def batch(case: Case, steps: int, what: Literal["inputs", "targets"]) -> str:
    """The inputs or targets as a tensor: of the only step, or of the step in the variable `step`."""
    arrays = [getattr(numbers.batch(case, step), what) for step in range(steps)]
    literals = [spelling.numbers(array, case.dtype) for array in arrays]
    if case.dtype == "float64" and arrays[0].dtype.kind == "f":
        return f"torch.tensor({_chosen(literals)}, dtype=torch.float64)"
    half = f".to(torch.{case.dtype})" if case.dtype != "float32" and arrays[0].dtype.kind == "f" else ""
    return f"torch.tensor({_chosen(literals)}){half}"


def _chosen(literals: Sequence[str]) -> str:
    """The only step's, or that of the step in the variable `step`."""
    return literals[0] if len(literals) == 1 else f"[{', '.join(literals)}][step]"


def plain_weights(case: Case) -> tuple[str, ...]:
    """The lines that turn torch's initial weights into the case's kind of weights; none for most kinds."""
    if case.data.regime == "exact":
        return (
            "for parameter in model.parameters():",
            "    parameter.data.copy_(torch.randint(-1, 2, parameter.shape))",
        )
    if case.data.regime != "sharp":
        return ()
    return tuple(
        f"model{spelling.index(path)}.{name}.data.mul_({numbers.SHARPNESS})"
        for path, layer in walk(case.model.layers)
        for name in layer.ATTENTION_QUERIES
    )
