"""The project's ledger knows the faults of functions in the modules of torch that call them."""

import pytest
from sample_programs import a_program, an_operator
from shown_operators import backward, cut, entry, forward, on_xla, other_kinds, wrong

from difftest.cases.case import Case
from difftest.cases.layers.module import Construction, Module
from difftest.cases.layers.operator import Operand, Reference
from difftest.cases.layout import Shard
from difftest.findings.facts import facts
from difftest.judge.divergence import Divergence
from difftest.judge.stage import Stage

UNEVEN = a_program(
    an_operator("mean", operands={"input": Operand(shape=(3,))}), sharded={"0.input": (Shard(0),)}
)
NUMBERS = "1 values are numbers where the oracle's are NaN, on ranks [0]"


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (other_kinds(backward("nn.SmoothL1Loss"), "not NaN", NUMBERS), cut("nn.SmoothL1Loss")),
        (on_xla(backward("nn.CELU")), cut("nn.CELU")),
        (
            on_xla(
                forward("nn.LayerNorm"), check="result_facts", nature="nn.LayerNorm, requires no gradient"
            ),
            cut("nn.LayerNorm"),
        ),
        (
            on_xla(wrong("parameters", "nn.BatchNorm2d", Stage.UPDATE, "0.running_var")),
            cut("nn.BatchNorm2d"),
        ),
        (forward("nn.AdaptiveAvgPool2d"), UNEVEN),
        (forward("nn.PoissonNLLLoss"), UNEVEN),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_a_fault_of_a_function_is_known_of_the_module_that_calls_it(shown: Divergence, case: Case) -> None:
    assert entry(shown, case)


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (on_xla(backward("nn.SmoothL1Loss")), cut("nn.SmoothL1Loss")),
        (on_xla(backward("nn.GELU")), cut("nn.GELU")),
        (on_xla(backward("nn.LayerNorm")), cut("nn.LayerNorm")),
        (on_xla(wrong("parameters", "nn.BatchNorm2d", Stage.UPDATE, "0.weight")), cut("nn.BatchNorm2d")),
        (forward("nn.AdaptiveAvgPool2d"), cut("nn.AdaptiveAvgPool2d")),
        (forward("nn.PoissonNLLLoss"), cut("nn.PoissonNLLLoss")),
        (forward("nn.LSTM"), UNEVEN),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_another_fault_of_a_module_is_not_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case) is None


def test_a_module_stands_as_its_function_with_the_options_of_its_class() -> None:
    layer = Module(
        operator="nn.ELU",
        call="torch.nn.ELU",
        operands={"input": Operand(shape=(4, 3))},
        arguments=(Reference("input"),),
        made=Construction(options={"alpha": 2.0}),
    )
    written = facts(a_program(layer))
    assert (written["program"], written["options"]) == (" nn.functional.elu ", " alpha=2.0 ")
