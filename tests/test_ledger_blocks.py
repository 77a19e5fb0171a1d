"""Entries of the project's ledger about building blocks: which options of which block they are about."""

import pytest
from msgspec.structs import replace
from samples import a_case
from shown_operators import entry, failed

from difftest.cases.case import Case
from difftest.cases.layers.building_block import BuildingBlock
from difftest.findings.facts import facts
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

WRONG = Divergence(
    backend="torch_dtensor",
    side="torch",
    path="blocks",
    check="loss",
    symptom=Symptom.MISMATCH,
    stage=Stage.FORWARD,
    tensor="output",
    detail="step 0, forward, output: 4 / 4 elements (100.0%) differ",
    ratio=50.0,
)


def of_block(name: str, **options: bool | str) -> Case:
    block = BuildingBlock(block=name, arguments=options, parameters={"weight": (4, 4)}, inputs=4, outputs=4)
    return a_case((block,))


def test_the_options_of_layers_are_words_in_one_order() -> None:
    words = "block cross_entropy; block cross_entropy ignored=True; block cross_entropy reduction=mean; "
    assert facts(of_block("cross_entropy", reduction="mean", ignored=True))["layer_options"] == words


@pytest.mark.parametrize("why", [{"ignored": True}, {"weighted": True}])
def test_the_mean_of_a_cross_entropy_of_unequal_ranks_is_known_and_other_reductions_are_not(
    why: dict[str, bool],
) -> None:
    assert entry(WRONG, of_block("cross_entropy", reduction="mean", **why))
    assert entry(WRONG, of_block("cross_entropy", reduction="sum", **why)) is None
    equal = dict.fromkeys(why, False)
    assert entry(WRONG, of_block("cross_entropy", reduction="mean", **equal)) is None


@pytest.mark.parametrize(("operator", "known"), [("unbind.int", True), ("transpose_", True), ("gru", False)])
def test_what_a_gru_needs_is_known_to_have_no_sharding_rule(operator: str, *, known: bool) -> None:
    message = f"Operator aten.{operator}.default does not have a sharding strategy registered."
    message = message.replace("int.default", "int")
    shown = replace(failed("", Stage.FORWARD, message), symptom=Symptom.CAPABILITY)
    assert bool(entry(shown, of_block("recurrent"))) is known


def test_a_convolution_in_a_block_is_known_to_exchange_columns() -> None:
    assert entry(WRONG, of_block("convolution", norm="none"))
    assert entry(WRONG, of_block("depthwise")) is None
