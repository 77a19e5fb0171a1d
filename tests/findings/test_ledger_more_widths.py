"""Entries of the project's ledger that campaigns asked for: how wide they are."""

import pytest
from msgspec.structs import replace
from sample_programs import a_program, an_operator
from sample_scripts import collective_case
from samples import a_case
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
)

from difftest.cases.case import Case, Data, Regime, Training
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.operator import Operand
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Replicate, Shard
from difftest.judge.divergence import Divergence
from difftest.judge.facts import NOT_FINITE, KindsFacts
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

ONE_RANK = a_program(an_operator("fft.ihfft"), mesh=(("dp", 1),))
NONFINITE = Data(batch=1, regime="nonfinite")
ONES = "2 / 24 elements (8.3%) differ; greatest 1, 1e+30 x the rounding noise 0; values are about 0"
TRIPLETS = "nn.functional.triplet_margin_loss"
FIRST = "step 0, forward, 1.output"
LOWERING = "RuntimeError: Error while lowering: [] {}, dynamic_dims: ()"
PRECISIONS = "during context [hlo verifier]: Seen floating point types of different precisions in {}"


def lowered(operator: str, node: str) -> Divergence:
    """A node that torch_xla cannot lower."""
    return on_xla(failed(operator, Stage.FORWARD, LOWERING.format(node)))


def of_precisions(operator: str, instruction: str) -> Divergence:
    """An instruction of XLA's whose operands have several floating dtypes."""
    return on_xla(failed(operator, Stage.FORWARD, PRECISIONS.format(instruction)))


@pytest.mark.parametrize(
    ("shown", "another", "case"),
    [
        (
            lowered("tan", "aten::tan, xla_shape=pred[8]{0}"),
            lowered("tan", "aten::tan, xla_shape=f32[8]{0}"),
            cut("tan"),
        ),
        (
            on_xla(forward("asin"), "has dtype bool, expected float32", check="shape"),
            on_xla(forward("asin"), "has dtype float64, expected float32", check="shape"),
            cut("asin"),
        ),
        (
            on_xla(forward("native_dropout_backward"), "has dtype int32, expected float32", check="shape"),
            on_xla(forward("native_dropout_backward"), "has dtype float64, expected float32", check="shape"),
            cut("native_dropout_backward"),
        ),
        (
            replace(forward("cov", detail=f"{FIRST}: rank 0 holds (2,), expected (1, 2)"), check="shape"),
            replace(forward("cov", detail=f"{FIRST}: rank 0 holds (2,), expected (2, 2)"), check="shape"),
            cut("cov"),
        ),
        (
            lowered("masked.softmin", "aten::softmax, xla_shape=s16[4,0,0]{2,1,0}"),
            lowered("masked.softmin", "aten::softmax, xla_shape=f32[4,0,0]{2,1,0}"),
            cut("masked.softmin"),
        ),
        (
            lowered("as_strided_scatter", "xla::as_strided_view_update, xla_shape=f32[3,3]{1,0}"),
            lowered("as_strided_scatter", "aten::expand, xla_shape=f32[3,3]{1,0}"),
            cut("as_strided_scatter"),
        ),
        (
            of_precisions("slice_scatter", "%pad.12 = f32[3,3]{1,0} pad(%convert.6, %constant.11)"),
            of_precisions("slice_scatter", "%add.12 = f32[3,3]{1,0} add(%convert.6, %constant.11)"),
            cut("slice_scatter"),
        ),
        (
            of_precisions("xlogy", "%select.19 = f32[0,6,3]{2,1,0} select(%compare.18)"),
            of_precisions("where", "%select.19 = f32[0,6,3]{2,1,0} select(%compare.18)"),
            cut("xlogy", "where"),
        ),
        (on_xla(forward("isneginf"), ONES), on_xla(forward("isposinf"), ONES), cut("isneginf", "isposinf")),
        (
            other_kinds(forward("nn.functional.max_unpool3d.grad"), *HIDES_NAN),
            other_kinds(forward("nn.functional.max_unpool3d.grad"), *WAS_NAN),
            replace(cut("nn.functional.max_unpool3d.grad"), data=NONFINITE),
        ),
        (
            on_xla(forward("fft.ihfft")),
            on_xla(backward("fft.ihfft")),
            replace(ONE_RANK, dtype="float64"),
        ),
        (
            failed("quantile", Stage.FORWARD, "aten.masked_fill.Scalar: got mixed torch.Tensor and DTensor"),
            failed("quantile", Stage.FORWARD, "aten.add.Tensor: got mixed torch.Tensor and DTensor"),
            cut("quantile"),
        ),
        (
            failed(
                "nn.functional.linear",
                Stage.FORWARD,
                "self and mat2 must have the same dtype, but got Float and Bool",
            ),
            failed(
                "nn.functional.linear",
                Stage.FORWARD,
                "self and mat2 must have the same dtype, but got Half and BFloat16",
            ),
            cut("nn.functional.linear"),
        ),
        (
            other_kinds(forward("masked.amax"), *HIDES_NAN),
            other_kinds(forward("masked.amax"), *WAS_NAN),
            cut("masked.amax"),
        ),
        (
            on_xla(other_kinds(forward("max.binary"), *WAS_NAN)),
            on_xla(other_kinds(forward("max.binary"), *IS_NAN)),
            replace(cut("max.binary"), data=NONFINITE),
        ),
        (
            on_xla(other_kinds(forward("__rmod__"), *IS_NAN)),
            on_xla(other_kinds(forward("__rmod__"), *WAS_NAN)),
            replace(cut("true_divide", "__rmod__"), data=Data(batch=1, regime="kinks")),
        ),
        (
            on_xla(backward(TRIPLETS), nature=f"{TRIPLETS}, zero"),
            on_xla(backward(TRIPLETS), nature=TRIPLETS),
            replace(cut(TRIPLETS), dtype="float16"),
        ),
        (
            replace(forward("add", detail=f"{FIRST}: has dtype float32, expected int64"), check="shape"),
            replace(forward("add", detail=f"{FIRST}: has dtype float32, expected float64"), check="shape"),
            cut("sum", "add"),
        ),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_a_fault_of_a_campaign_is_known_and_another_one_of_its_kind_is_not(
    shown: Divergence, another: Divergence, case: Case
) -> None:
    assert entry(shown, case)
    assert entry(another, case) is None


@pytest.mark.parametrize(
    ("shown", "known", "other"),
    [
        (on_xla(forward("isneginf"), ONES), "normal", "nonfinite"),
        (other_kinds(forward("nn.functional.max_unpool2d"), *HIDES_NAN), "nonfinite", "normal"),
        (other_kinds(backward("nn.functional.logsigmoid"), *IS_NAN), "nonfinite", "normal"),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_a_fault_of_some_values_is_not_known_where_there_are_others(
    shown: Divergence, known: Regime, other: Regime
) -> None:
    case = cut(shown.operator)
    assert entry(shown, replace(case, data=Data(batch=1, regime=known)))
    assert entry(shown, replace(case, data=Data(batch=1, regime=other))) is None


def test_complex_numbers_are_known_to_lose_their_imaginary_parts_in_float64_alone() -> None:
    shown = on_xla(forward("fft.ihfft"))
    assert entry(shown, replace(ONE_RANK, dtype="float64"))
    assert entry(shown, ONE_RANK) is None


def test_a_linear_layer_of_whole_operands_has_no_bias_that_becomes_a_partial_sum() -> None:
    mixed = "self and mat2 must have the same dtype, but got Float and Long"
    shown = failed("nn.functional.linear", Stage.FORWARD, mixed)
    assert entry(shown, cut("nn.functional.linear"))
    assert entry(shown, a_program(an_operator("nn.functional.linear"), mesh=(("dp", 2),))) is None


@pytest.mark.parametrize(
    ("shown", "regime", "program", "others"),
    [
        (
            on_xla(backward("add"), "1 / 24 elements (4.2%) differ; greatest 0.771"),
            "nonfinite",
            ("add", "neg", "flatten", "nn.functional.relu"),
            ("add", "neg", "flatten", "abs"),
        ),
        (
            on_xla(forward("frexp", "1.output.0")),
            "normal",
            ("nn.functional.celu", "frexp"),
            ("sin", "frexp"),
        ),
        (
            other_kinds(forward("__rmod__", "1.output"), *IS_NAN),
            "zeros",
            ("floor_divide", "__rmod__"),
            ("sin", "__rmod__"),
        ),
    ],
    ids=["add before relu", "frexp after celu", "remainder of a quotient by 0"],
)
def test_a_fault_that_shows_at_another_operator_is_known_beside_the_one_that_has_it(
    shown: Divergence, regime: Regime, program: tuple[str, ...], others: tuple[str, ...]
) -> None:
    data = Data(batch=1, regime=regime)
    assert entry(shown, replace(cut(*program), data=data))
    assert entry(shown, replace(cut(*others), data=data)) is None


EMPTY = a_program(
    an_operator("argmax", operands={"input": Operand(shape=(2,))}),
    sharded={"0.input": (Shard(0),)},
    mesh=(("dp", 4),),
)


@pytest.mark.parametrize(
    "message",
    [
        "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim",
        "max(): the dim argument must be specified when the input tensor has 0 elements",
    ],
    ids=["torch", "torch_tpu"],
)
def test_a_rank_that_holds_nothing_is_known_to_have_no_greatest_value(message: str) -> None:
    shown = replace(failed("argmax", Stage.FORWARD, f"RuntimeError: {message}"), backend="tpu_dtensor")
    assert entry(shown, EMPTY)
    assert entry(shown, cut("argmax")) is None
    assert entry(replace(shown, operator="sort"), EMPTY) is None


def test_the_number_of_a_dim_alone_is_known_of_what_expands() -> None:
    shown = failed("expand", Stage.FORWARD, "RuntimeError: 1")
    assert entry(shown, cut("expand"))
    assert entry(replace(shown, operator="roll"), cut("roll")) is None


def test_a_parameter_of_fewer_rows_than_ranks_is_known_not_to_be_updated_in_place() -> None:
    refuses = "RuntimeError: aten.lerp_.Scalar: in-place operations that require placement changes"
    shown = failed("", Stage.UPDATE, f"{refuses} are not supported.")
    shown = replace(shown, symptom=Symptom.CAPABILITY)
    few, many = (
        a_case(training=Training(optimizer="adam"), sharded={"0.weight": (Shard(0),)}, mesh=(("dp", ranks),))
        for ranks in (4, 2)
    )
    assert entry(shown, few)
    assert entry(shown, many) is None


def test_a_linear_layer_is_known_to_refuse_rows_that_dtensor_itself_shards_unevenly() -> None:
    message = "RuntimeError: Cannot flatten unevenly sharded tensor: dimension 0 (size 15) is not evenly"
    shown = failed("", Stage.BACKWARD, message)
    assert entry(shown, a_case(sequence=4, batch=(Replicate(),), mesh=(("tp", 4),)))
    assert entry(failed("", Stage.BACKWARD, "RuntimeError: Cannot flatten tensor"), a_case()) is None


@pytest.mark.parametrize(
    "message",
    [
        "Expected cond to be True, but got False. (Could",
        "shape '[30, 7]' is invalid for input of size 90",
    ],
)
def test_a_convolution_is_known_to_leave_a_shard_that_what_follows_cannot_use(message: str) -> None:
    shown = failed("", Stage.FORWARD, f"RuntimeError: {message}")
    moved = Redistribute(width=4, dims=(1,), by="to_local")
    assert entry(shown, a_case((Conv(inputs=4, outputs=4), moved), sequence=4))
    assert entry(shown, a_case((Linear(inputs=4, outputs=4), moved))) is None


def test_a_collective_into_views_under_torch_compile_is_known_on_torch_tpu() -> None:
    """What another layer makes of the same memory is not."""
    facts = KindsFacts(count=28, actual=NOT_FINITE, ranks=(0, 1))
    shown = replace(
        forward("", facts=facts), backend="tpu_compile", check="finite", symptom=Symptom.NONFINITE
    )
    assert entry(shown, collective_case("all_to_all", form="list"))
    assert entry(shown, a_case()) is None
