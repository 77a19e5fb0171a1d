"""The ledger's entries about twins mean no other fault of torch itself."""

import msgspec
import pytest
from sample_findings import FINDING, changed
from samples import a_case

from difftest.cases.case import Training
from difftest.cases.options import Feature
from difftest.cases.twins import twin
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.facts import NumbersFacts
from difftest.judge.stage import Stage

TENSOR_RATE = Feature(name="tensor_rate", options={})
AVERAGED = Feature(name="averaged_weights", options={"decay": 0.5})
ROUNDED = 9.3e-12
FACTS = NumbersFacts(differing=4, elements=4, greatest=ROUNDED, scale=0.17, floor=1e-17)


def excused(greatest: float = ROUNDED, nature: str = "adamw with tensor_rate", *features: Feature) -> bool:
    """Whether the rate in float32 explains an update by torch itself that is so far off."""
    case = twin(a_case(training=Training(optimizer="adamw"), features=features or (TENSOR_RATE,)))
    finding = changed(
        FINDING,
        backend="torch_eager",
        check="parameters",
        stage=Stage.UPDATE,
        nature=nature,
        facts=msgspec.structs.replace(FACTS, greatest=greatest),
    )
    entry = read_ledger().entry_of(finding, case, utc_today())
    return entry is not None and "decay_of_tensor_rate_in_float32" in entry.upstream


@pytest.mark.parametrize("greatest", [ROUNDED, 3e-8, 6e-7])
def test_a_rate_that_is_a_tensor_explains_errors_of_rounding_to_float32(greatest: float) -> None:
    assert excused(greatest)


def test_a_rate_that_is_a_tensor_explains_nothing_else() -> None:
    assert not excused(1e-3)
    assert not excused(5e-6)
    assert not excused(ROUNDED, "adamw", AVERAGED)
