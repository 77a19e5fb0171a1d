"""In the regime that asks for it, the zeros of a program's results and operands have the oracle's signs.

IEEE 754 tells -0.0 from 0.0, and so do division, `atan2` and `copysign`. In other regimes the sign is not
compared.
"""

from collections.abc import Iterator

import numpy as np

from difftest.cases.layers.module import function_called
from difftest.cases.zeros import EITHER_IN_ATEN
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ORDER = 5
"""Last: wrong numbers are reported as such."""

TRAITS = Traits(uses_numbers=True)

EITHER = EITHER_IN_ATEN | {
    *("addbmm", "addmm", "addmv", "baddbmm", "batch_norm", "celu", "clip", "inner", "rmod", "selu"),
    *("interpolate.area", "interpolate.bicubic", "interpolate.bilinear", "interpolate.linear"),
    *("interpolate.trilinear", "upsample_bilinear"),
}
"""Operators whose zeros have no documented sign: either of 0.0 and -0.0 may be greater, or be the result.

By its formula `elu` of -0.0 is exp(-0.0) - 1, which is 0.0; torch's kernels use expm1, which keeps the sign.
Interpolation adds up weighted neighbours, in a form that is not documented; to the nearest it copies one.
Nor is the form documented of a normalization with given statistics, or to what products are added: to a zero
of either sign, or to the addend.
A name with a variant is that variant alone.
"""


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each result or operand with a zero of the other sign."""
    if not run.case.model.is_program or run.case.data.regime != "signed_zeros":
        return
    if any(not EITHER.isdisjoint(_names(layer.operator)) for layer in run.case.model.operators.values()):
        return  # what follows such an operator has its zeros
    for key in run.measured:
        truth, floors, actual = run.beside(key)
        if key[1] is Stage.BACKWARD or actual.is_discrete or actual.dtype.startswith("complex"):
            continue  # the zeros of gradients and of transforms come from sums in any order
        if key[2] == "loss":
            continue  # as does that of the loss
        value = actual.full(run.case.layout.mesh)
        zeros = (truth == 0) & (value == 0) & np.isfinite(floors)
        other = zeros & (np.signbit(truth) != np.signbit(value))
        if wrong := int(np.count_nonzero(other)):
            lost = ", all 0.0 for -0.0" if np.signbit(truth[other]).all() else ""
            unlike = RemarkFacts(
                remark=f"{wrong} / {np.count_nonzero(zeros)} zeros have the other sign{lost}"
            )
            yield run.tensor_divergence("zero_signs", Symptom.MISMATCH, key, unlike, nature="signs of zeros")


def _names(operator: str) -> tuple[str, str]:
    """The operator's name without its namespaces, and that without its variant and underscores.

    A module has the name of its function.
    """
    own = function_called(operator)
    for namespace in ("nn.functional.", "aten.", "_foreach_"):
        own = own.removeprefix(namespace)
    return own, own.partition(".")[0].strip("_")
