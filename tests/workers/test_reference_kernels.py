"""The reference computes with kernels that are right in float64, also where torch's own are not."""

import numpy as np
import pytest
from installed_packages import needs
from sample_programs import a_call, a_program

from difftest.cases import numbers
from difftest.cases.layers.operator import Operand
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.isolate import sandbox  # noqa: E402

BACKWARD = (Stage.BACKWARD, "0.input")
NEAR_ZERO = Operand(shape=(4,), values=(-0.5, 0.25, 0.5, 1.0))


@pytest.mark.xla
def test_the_gradient_of_hardsigmoid_is_a_sixth_as_on_xla() -> None:
    call = a_call("torch.nn.functional.hardsigmoid", {"input": NEAR_ZERO})
    case = a_program(call, dtype="float64")
    truth, on_xla = sandbox.run(case, "oracle"), sandbox.run(case, "xla_spmd")
    assert isinstance(truth, Trace)
    cotangent = numbers.cotangent(case, "0.output", (4,))
    gradient = truth.steps[0][BACKWARD].pieces[0]
    assert np.abs(gradient - cotangent / 6).max() < 1e-15
    assert compare(case, "xla_spmd", "xla", truth, on_xla).verdict == "agree"
