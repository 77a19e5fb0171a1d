"""`replicate` by FSDP2 in real processes: it trains as DDP does, and a planted fault is found."""

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace
from sharded_cases import S0, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.cases.options import Replication
from difftest.cases.wrapping import Sharding
from difftest.judge.comparator import compare
from workers import faults
from workers.backends import torch_replicate
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_replicate"
BLOCK = Residual(layers=(Linear(inputs=9, outputs=9),))
WITH_BLOCK = Model(layers=(Linear(inputs=6, outputs=9), BLOCK, Linear(inputs=9, outputs=5)))
PARTS = Training(steps=2, accumulation=2, optimizer="adam", learning_rate=0.0625, clip_norm=0.125)
CASE = a_sharded_case(Mesh((("dp", 3),)), (S0,), model=WITH_BLOCK, training=PARTS, rows=6)


def every_part(case: Case) -> Case:
    return msgspec.structs.replace(case, sharding=Sharding(synced="every"))


def test_it_agrees_with_the_oracle_whatever_parts_are_reduced() -> None:
    for case in (CASE, every_part(CASE)):
        assert agrees(case, BACKEND, sandbox.run(case, BACKEND)), case.sharded_by


def test_a_planted_fault_of_it_is_found() -> None:
    outcome = sandbox.run(CASE, BACKEND, options={faults.VARIABLE: "gradient_negated"})
    assert compare(CASE, BACKEND, "torch", oracle_trace(CASE), outcome).divergences[0].check == "gradients"


def test_ranks_that_start_with_weights_of_their_own_are_refused() -> None:
    apart = msgspec.structs.replace(CASE, replication=Replication(own_weights=True))
    assert torch_replicate.unsupported(CASE) is None
    assert torch_replicate.unsupported(apart) == "replicate keeps the weights that a rank starts with"
