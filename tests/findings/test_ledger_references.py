"""The ledger's entries about twins mean no other fault of torch itself."""

import msgspec
import pytest
from sample_findings import FINDING, changed
from sample_programs import a_program, an_operator
from samples import a_case

from difftest.cases.case import Training
from difftest.cases.options import Feature
from difftest.cases.twins import twin
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.facts import KindsFacts, NumbersFacts
from difftest.judge.outcome import Symptom
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


@pytest.mark.parametrize(
    ("operator", "stage", "tensor", "actual", "expected", "fault"),
    [
        ("binary_cross_entropy", Stage.BACKWARD, "0.target", "numbers", "infinity", "gradient_of_targets"),
        ("binary_cross_entropy_with_logits", Stage.FORWARD, "0.output", "infinity", "NaN", "logits_of_minus"),
        ("poisson_nll_loss", Stage.BACKWARD, "0.target", "numbers", "NaN", "poisson_gradient"),
    ],
)
def test_kinds_of_values_that_a_loss_has_at_an_edge_are_explained_and_no_others(  # noqa: PLR0913, PLR0917  a row
    operator: str, stage: Stage, tensor: str, actual: str, expected: str, fault: str
) -> None:
    name = f"nn.functional.{operator}"
    case = twin(a_program(an_operator(name)))

    def explained(**changes: object) -> bool:
        fields = {"check": "finite", "symptom": Symptom.NONFINITE, "stage": stage, "tensor": tensor}
        facts = KindsFacts(count=1, actual=actual, expected=expected)
        shown = changed(
            FINDING, backend="definitions", **fields | {"operator": name, "facts": facts} | changes
        )
        entry = read_ledger().entry_of(shown, case, utc_today())
        return entry is not None and fault in entry.upstream

    assert explained()
    assert not explained(facts=KindsFacts(count=1, actual=expected, expected=actual))
    assert not explained(tensor="0.weight", stage=Stage.BACKWARD)
    assert not explained(operator="mul")


def test_a_rate_that_is_a_tensor_explains_nothing_else() -> None:
    assert not excused(1e-3)
    assert not excused(5e-6)
    assert not excused(ROUNDED, "adamw", AVERAGED)
