"""The project's ledger knows the faults of functions in the modules of torch that call them."""

import pytest
from msgspec.structs import replace
from sample_programs import a_program, an_operator
from shown_operators import (
    HIDES_NAN,
    IS_NAN,
    WAS_NAN,
    backward,
    cut,
    entry,
    failed,
    forward,
    on_xla,
    other_kinds,
    wrong,
)

from difftest.cases.case import Case, Data
from difftest.cases.layers.module import Construction, Module
from difftest.cases.layers.operator import Argument, Operand, Reference
from difftest.cases.layout import Shard
from difftest.findings.facts import facts
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

UNEVEN = a_program(
    an_operator("mean", operands={"input": Operand(shape=(3,))}), sharded={"0.input": (Shard(0),)}
)


def a_module(name: str, **options: Argument) -> Case:
    """A program of one module with these options of its class, with values that are not finite."""
    layer = Module(
        operator=f"nn.{name}",
        call=f"torch.nn.{name}",
        operands={"input": Operand(shape=(4, 3))},
        arguments=(Reference("input"),),
        made=Construction(options=options),
    )
    return a_program(layer, data=Data(batch=1, regime="nonfinite"))


DOUBLE = replace(cut("nn.TransformerEncoderLayer"), dtype="float64")
FINE = "12 / 12 elements (100.0%) differ; greatest 7.905e-13, 161 x the rounding noise 3.4e-15"
ROWS = "RuntimeError: Expected dY.numel() == N * C * HxW to be true, but got false."
GRID = (("dp", 2), ("tp", 2))
SHORT = "ValueError: zip() argument 2 is shorter than argument 1"
OTHERS = "step 0, forward, 0.output: 4 values are of other kinds than the oracle's, on ranks [0]"
RELEASED = "AssertionError: no message; raised by: assert self.mask_buffer.data is not None"


def offset(operator: str) -> Case:
    """A program whose numbers have a mean far above their spread."""
    return replace(cut(operator), data=Data(batch=1, regime="offset"))


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (failed("nn.Embedding", Stage.FORWARD, RELEASED), cut("nn.Embedding")),
        (other_kinds(backward("nn.SmoothL1Loss"), *HIDES_NAN), cut("nn.SmoothL1Loss")),
        (on_xla(backward("nn.CELU", predicted=("input_for_result",))), cut("nn.CELU")),
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
        (forward("nn.AdaptiveAvgPool2d", predicted=("mean_of_means",)), UNEVEN),
        (forward("nn.PoissonNLLLoss"), UNEVEN),
        (forward("nn.GaussianNLLLoss"), UNEVEN),
        (forward("nn.KLDivLoss"), UNEVEN),
        (forward("nn.SoftMarginLoss", predicted=("mean_of_means",)), UNEVEN),
        (backward("nn.MSELoss", nature="nn.MSELoss, times a number of ranks"), cut("nn.MSELoss")),
        (failed("nn.GroupNorm", Stage.BACKWARD, ROWS), cut("nn.GroupNorm")),
        (failed("nn.CTCLoss", Stage.FORWARD, "RuntimeError: aten._ctc_loss.default"), cut("nn.CTCLoss")),
        (on_xla(forward("nn.TransformerEncoderLayer"), FINE), DOUBLE),
        (failed("nn.ConstantPad1d", Stage.FORWARD, SHORT), a_program(an_operator("mean"), mesh=GRID)),
        (
            replace(forward("nn.RMSNorm", detail=OTHERS), check="finite", symptom=Symptom.NONFINITE),
            cut("nn.RMSNorm"),
        ),
        (other_kinds(forward("nn.InstanceNorm2d"), *IS_NAN), offset("nn.InstanceNorm2d")),
        (other_kinds(backward("nn.ELU"), *IS_NAN), a_module("ELU")),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_a_fault_of_a_function_is_known_of_the_module_that_calls_it(shown: Divergence, case: Case) -> None:
    assert entry(shown, case)


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (failed("nn.Linear", Stage.FORWARD, RELEASED), cut("nn.Linear")),
        (on_xla(backward("nn.SmoothL1Loss")), cut("nn.SmoothL1Loss")),
        (on_xla(backward("nn.GELU")), cut("nn.GELU")),
        (on_xla(backward("nn.LayerNorm")), cut("nn.LayerNorm")),
        (on_xla(wrong("parameters", "nn.BatchNorm2d", Stage.UPDATE, "0.weight")), cut("nn.BatchNorm2d")),
        (forward("nn.AdaptiveAvgPool2d"), cut("nn.AdaptiveAvgPool2d")),
        (forward("nn.PoissonNLLLoss"), cut("nn.PoissonNLLLoss")),
        (forward("nn.GaussianNLLLoss"), cut("nn.GaussianNLLLoss")),
        (forward("nn.KLDivLoss"), cut("nn.KLDivLoss")),
        (forward("nn.SoftMarginLoss"), cut("nn.SoftMarginLoss")),
        (backward("nn.MSELoss"), cut("nn.MSELoss")),
        (failed("nn.BatchNorm1d", Stage.BACKWARD, ROWS), cut("nn.BatchNorm1d")),
        (failed("nn.NLLLoss", Stage.FORWARD, "RuntimeError: aten._ctc_loss.default"), cut("nn.NLLLoss")),
        (on_xla(forward("nn.TransformerEncoderLayer"), FINE), cut("nn.TransformerEncoderLayer")),
        (failed("nn.ConstantPad1d", Stage.FORWARD, SHORT), cut("nn.ConstantPad1d")),
        (
            replace(forward("nn.RMSNorm", detail=OTHERS), check="finite", symptom=Symptom.NONFINITE),
            a_program(an_operator("nn.RMSNorm")),
        ),
        (other_kinds(forward("nn.InstanceNorm2d"), *IS_NAN), cut("nn.InstanceNorm2d")),
        (other_kinds(backward("nn.ELU"), *IS_NAN), cut("nn.ELU")),
        (forward("nn.LSTM"), UNEVEN),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_another_fault_of_a_module_is_not_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case) is None


def test_a_module_stands_as_its_function_with_the_options_of_its_class() -> None:
    written = facts(a_module("ELU", alpha=2.0))
    assert (written["program"], written["options"]) == (" nn.functional.elu ", " alpha=2.0 ")


FEW, MANY = (f"{count} / 12 elements (9.1%) differ" for count in (2, 3))
LINEAR = wrong("gradients", "nn.TransformerDecoderLayer", Stage.BACKWARD, "0.linear1_bias")
CELL = wrong("gradients", "nn.RNNCell", Stage.BACKWARD, "0.hx")


@pytest.mark.parametrize(
    ("shown", "another", "case"),
    [
        (on_xla(backward("nn.ReLU"), FEW), on_xla(backward("nn.ReLU"), MANY), a_module("ReLU")),
        (
            other_kinds(LINEAR, *HIDES_NAN),
            other_kinds(LINEAR, *IS_NAN),
            a_module("TransformerDecoderLayer"),
        ),
        (
            on_xla(CELL, nature="nn.RNNCell, zero"),
            on_xla(CELL, nature="nn.RNNCell"),
            a_module("RNNCell", nonlinearity="relu"),
        ),
        (
            other_kinds(forward("nn.BatchNorm3d"), *WAS_NAN),
            other_kinds(forward("nn.BatchNorm3d"), *IS_NAN),
            a_module("BatchNorm3d"),
        ),
    ],
    ids=lambda one: one.operator if isinstance(one, Divergence) else "",
)
def test_a_fault_beside_nan_is_known_of_a_module_and_not_another_one_or_of_numbers(
    shown: Divergence, another: Divergence, case: Case
) -> None:
    assert entry(shown, case)
    assert entry(another, case) is None
    assert entry(shown, replace(case, data=Data(batch=1))) is None


def test_only_a_cell_of_relu_has_the_gradient_of_relu() -> None:
    shown = other_kinds(CELL, *IS_NAN)
    assert entry(shown, a_module("RNNCell", nonlinearity="relu"))
    assert entry(shown, a_module("RNNCell", nonlinearity="tanh")) is None
    assert entry(shown, a_module("RNNCell")) is None
