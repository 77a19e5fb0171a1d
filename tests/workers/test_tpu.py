"""XLA's backends on real TPU chips, compared with the oracle.

Kernels are compiled and not interpreted, and replicas have one process per chip.
"""

import itertools
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from flash_cases import flash
from real_runs import agrees

from difftest.cases.case import Case
from difftest.cases.resets import option_resets
from difftest.ground import plugins
from difftest.judge.outcome import Trace
from generators.cases import case_at
from workers.isolate import sandbox
from workers.xla import devices

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    pytest.mark.tpu,
    pytest.mark.skipif(devices.kind() != "TPU", reason="needs a TPU and libtpu"),
]
CASES_A_BACKEND = 5
CHIPS = min(devices.chips(), 8)
DEADLINE_SECONDS = 240.0


def supported(backend: str) -> Iterator[Case]:
    """Generated float32 cases with one chip a rank and the default start that the backend takes."""
    drawn = (case_at(0, index, max_world_size=CHIPS) for index in itertools.count())
    takes = plugins.load("workers.backends", backend).unsupported
    usual = (
        case
        for case in drawn
        if case.world_size == CHIPS and case.dtype == "float32" and not list(option_resets(case))
    )
    return (case for case in usual if takes(case) is None)


@pytest.mark.parametrize("backend", ["xla_spmd", "xla_annotated", "xla_replica"])
def test_generated_cases_agree_with_the_oracle_on_chips(backend: str) -> None:
    for case in itertools.islice(supported(backend), CASES_A_BACKEND):
        outcome = sandbox.run(case, backend, deadline=DEADLINE_SECONDS)
        assert agrees(case, backend, outcome, DEADLINE_SECONDS), case.id
        assert isinstance(outcome, Trace)
        assert outcome.environment["device"] == "TPU"


@pytest.mark.parametrize("backend", ["xla_spmd", "xla_splash"])
def test_kernels_are_compiled(backend: str) -> None:
    case = flash(("dp", 2), ("tp", 2), segments=True, causal=True, head_dim=128)
    outcome = sandbox.run(case, backend, deadline=DEADLINE_SECONDS)
    assert agrees(case, backend, outcome, DEADLINE_SECONDS)
    assert isinstance(outcome, Trace)
    assert outcome.environment["pallas"] == "compiled"


@pytest.mark.skipif(
    not all(map(find_spec, ("torchax", "flax"))), reason="needs torchax: pip install -e '.[torchax]'"
)
def test_torchax_agrees_with_the_oracle_on_the_same_chips() -> None:
    for case in itertools.islice(supported("torchax"), CASES_A_BACKEND):
        outcome = sandbox.run(case, "torchax", deadline=DEADLINE_SECONDS)
        assert agrees(case, "torchax", outcome, DEADLINE_SECONDS), case.id
        assert isinstance(outcome, Trace)
        assert outcome.environment["device"] == "tpu"
