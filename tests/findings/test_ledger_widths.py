"""Entries of the project's ledger that were too narrow or too wide: how wide they are."""

import pytest
from msgspec.structs import replace
from sample_findings import MISMATCH
from sample_programs import a_program, an_operator
from samples import a_case
from sentences import replaced
from shown_operators import (
    HIDES_NAN,
    IS_NAN,
    TODAY,
    WAS_NAN,
    backward,
    cut,
    entry,
    failed,
    forward,
    on_xla,
    other_kinds,
)

from difftest.cases.case import Case, Data, DType, Training
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Shard
from difftest.cases.options import Feature, Replication
from difftest.findings.facts import facts
from difftest.findings.ledger import read_ledger
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY

ONE_RANK = a_program(an_operator("flatten"), mesh=(("dp", 1),))
TRAINING = Training()
NONFINITE = Data(batch=1, regime="nonfinite")


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (other_kinds(forward("aten._foreach_clamp_max"), *HIDES_NAN), cut("aten._foreach_clamp_max")),
        (
            on_xla(
                forward("native_layer_norm", "0.output.0"),
                check="result_facts",
                nature="native_layer_norm, requires no gradient",
            ),
            cut("native_layer_norm"),
        ),
        (  # which selects the first and the last element
            replace(forward("trapezoid", nature="trapezoid, shape"), check="shape"),
            ONE_RANK,
        ),
        (  # whose infinity is an earlier result
            other_kinds(forward("native_dropout_backward"), *HIDES_NAN),
            replace(cut("native_dropout_backward"), data=Data(batch=1, regime="large")),
        ),
        (
            other_kinds(
                forward("aten._fused_sgd", "0.output.2"),
                "values of other kinds",
                "12 values are of other kinds, on ranks [0]",
            ),
            cut("aten._fused_sgd"),
        ),
        (other_kinds(forward("masked.amin"), *HIDES_NAN), cut("masked.amin")),
        (other_kinds(forward("minimum"), *WAS_NAN), replace(cut("minimum"), data=NONFINITE)),
        (
            replace(forward("flatten", nature="lost alias"), check="finite", symptom=Symptom.NONFINITE),
            ONE_RANK,
        ),
        (
            on_xla(failed("linalg.lstsq", Stage.BACKWARD, "Shapes are not compatible for broadcasting: x")),
            cut("linalg.lstsq"),
        ),
        (
            on_xla(failed("linalg.cond", Stage.FORWARD, "dim 1 cannot be applied to a 0-dim tensor")),
            cut("linalg.cond"),
        ),
        (
            on_xla(failed("", Stage.BACKWARD, "RuntimeError: Shapes are not compatible for broadcasting: x")),
            cut("cholesky_solve", "linalg.cond"),
        ),
        (
            on_xla(failed("", Stage.BACKWARD, "RuntimeError: Shapes are not compatible for broadcasting: x")),
            cut("linalg.svdvals", "ormqr"),
        ),
        (  # of two rows for four ranks
            failed(
                "nn.functional.linear",
                Stage.FORWARD,
                "RuntimeError: shape '[2, 8]' is invalid for input of size 24",
            ),
            a_program(
                an_operator("nn.functional.linear", operands={"input": Operand(shape=(2, 3))}),
                sharded={"0.input": (Shard(0), Shard(0))},
                mesh=(("dp", 2), ("tp", 2)),
            ),
        ),
        (
            on_xla(
                failed(
                    "linalg.svdvals",
                    Stage.FORWARD,
                    "during context [hlo verifier]: Expected instruction to have shape equal to f32[2,2]",
                )
            ),
            cut("linalg.svdvals"),
        ),
        (
            on_xla(
                failed(
                    "masked.mean",
                    Stage.FORWARD,
                    "Value out of range (expected to be in range of [0, -1], but got -1)",
                )
            ),
            cut("masked.mean"),
        ),
        (
            on_xla(failed("linalg.cholesky_ex", Stage.FORWARD, "Error while lowering: [] aten::expand, x")),
            cut("pinverse", "linalg.cholesky_ex", "linalg.pinv"),
        ),
        (
            failed(
                "nn.functional.embedding",
                Stage.FORWARD,
                "Inplace update to inference tensor outside InferenceMode",
            ),
            cut("nn.functional.embedding"),
        ),
        (
            on_xla(
                failed("nanmean", Stage.FORWARD, "Error while lowering: [] xla::select, xla_shape=f32[1]")
            ),
            cut("linalg.cond", "nanmean"),
        ),
        (
            forward("nn.functional.l1_loss", predicted=("mean_of_means",)),
            a_program(an_operator("nn.functional.l1_loss"), sharded={"0.input": (Shard(1),)}),
        ),
        (
            failed(
                "nn.functional.embedding_bag",
                Stage.FORWARD,
                "RuntimeError: aten.embedding_bag.padding_idx: got mixed torch.Tensor and DTensor",
            ),
            cut("nn.functional.embedding_bag"),
        ),
        (
            on_xla(forward("count_nonzero"), "has shape (1, 3), expected (3, 1)", check="shape"),
            cut("count_nonzero"),
        ),
        (
            on_xla(forward("aten._foreach_minimum"), "has dtype int8, expected float32", check="shape"),
            cut("aten._foreach_minimum"),
        ),
        (
            replace(forward("narrow", nature="narrow, lost alias"), check="zero_signs"),
            cut("narrow"),
        ),
        (
            failed("masked.mean", Stage.FORWARD, "aten.div.Tensor: got mixed torch.Tensor and DTensor"),
            cut("masked.mean"),
        ),
    ],
    ids=lambda shown: shown.operator if isinstance(shown, Divergence) else "",
)
def test_a_form_of_a_known_fault_that_a_campaign_called_new_is_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case)


def test_gradients_that_are_views_of_buckets_are_known_beside_replicas_that_differ() -> None:
    local = {"stage": Stage.BACKWARD, "predicted": ("unreduced",)}
    shown = replace(MISMATCH, backend="xla_ddp", check="gradients", **local)
    assert entry(shown, a_case(replication=Replication(gradient_as_bucket_view=True)))
    assert entry(shown, a_case()) is None


def test_replicas_that_differ_after_clipping_are_known_as_those_after_a_reduction() -> None:
    own = {"stage": Stage.UPDATE, "predicted": ("clipped_apart",)}
    shown = replace(MISMATCH, backend="xla_replica", check="replicas", **own)
    assert entry(shown, a_case(training=Training(clip_norm=0.25)))
    assert entry(replace(shown, predicted=()), a_case(training=Training(clip_norm=0.25))) is None
    assert entry(shown, a_case()) is None


@pytest.mark.parametrize("operator", ["relu", "nn.functional.gelu", "nn.functional.prelu"])
def test_the_gradients_of_activations_like_elu_are_not_those_of_elu(operator: str) -> None:
    shown = on_xla(backward("nn.functional.elu", predicted=("input_for_result",)))
    assert entry(shown, cut("nn.functional.elu"))
    assert entry(replace(shown, predicted=()), cut("nn.functional.elu")) is None
    assert entry(replace(shown, operator=operator), cut(operator)) is None


def test_a_clip_that_keeps_whole_numbers_whole_is_not_one_that_is_wrong() -> None:
    whole = on_xla(forward("aten.clip"), "has dtype int32, expected float32", check="shape")
    assert entry(whole, cut("aten.clip"))
    assert entry(on_xla(forward("aten.clip")), cut("aten.clip")) is None


def test_a_negative_zero_lost_before_a_division_is_not_a_failure_or_a_wrong_number_of_addcdiv() -> None:
    case = replace(cut("addcdiv"), data=Data(batch=1, regime="signed_zeros"))
    assert entry(other_kinds(forward("addcdiv"), *IS_NAN), case)
    assert entry(on_xla(failed("addcdiv", Stage.FORWARD, "RuntimeError: anything")), case) is None
    assert entry(on_xla(forward("addcdiv")), case) is None


def test_a_negative_zero_that_a_select_loses_makes_an_angle_of_zero_for_pi() -> None:
    shown = on_xla(forward("atan2"), "4 / 24 elements differ; greatest 3.142, 2e+07 x the rounding noise")
    assert entry(shown, cut("div", "select", "atan2"))
    assert entry(shown, cut("div", "atan2")) is None
    assert (
        entry(on_xla(forward("atan2"), "4 / 24 elements differ; greatest 0.25, 10 x"), cut("select", "atan2"))
        is None
    )


def test_a_lost_copy_of_a_partial_gradient_is_known_by_the_numbers_of_memory_that_nobody_wrote() -> None:
    shown = backward("add", detail="step 0, backward, 2.other: 1 / 1 elements differ; greatest 4.61e+33, x")
    sharded = {"0.input": (Shard(1), Shard(0))}
    case = a_program(
        *map(an_operator, ("neg", "transpose", "add")), mesh=(("dp", 2), ("tp", 2)), sharded=sharded
    )
    assert entry(shown, case)
    small = replaced(shown, detail="step 0, backward, 2.other: 1 / 1 elements differ; greatest 4.61, x")
    assert entry(small, case) is None
    assert entry(shown, cut("neg", "transpose", "add")) is None


def test_the_gradient_of_as_strided_copy_is_known_behind_a_part_alone() -> None:
    shown = on_xla(backward("neg"))
    assert entry(shown, cut("neg", "narrow", "as_strided_copy"))
    assert entry(shown, cut("neg", "as_strided_copy")) is None
    assert entry(on_xla(backward("neg")), cut("neg", "narrow")) is None


def trained_with(
    feature: str, training: Training = TRAINING, dtype: DType = "bfloat16", **options: str
) -> Case:
    """A case with one feature of training."""
    with_option = Feature(name=feature, options=dict(options))
    return a_case(training=training, dtype=dtype, features=(with_option,), path="features")


@pytest.mark.parametrize(
    "another",
    [
        trained_with("implementation", kind="foreach"),
        trained_with("implementation", training=Training(optimizer="adam"), kind="fused"),
        trained_with("implementation", dtype="float32", kind="fused"),
        a_case(dtype="bfloat16"),
    ],
)
def test_fused_sgd_in_half_types_is_known_to_leave_parameters_and_nothing_else(another: Case) -> None:
    shown = replace(MISMATCH, backend="torch_ddp", check="parameters", nature="not updated")
    case = trained_with("implementation", training=Training(optimizer="momentum"), kind="fused")
    assert entry(shown, case)
    assert entry(shown, another) is None
    assert entry(replace(shown, nature="times a constant"), case) is None
    assert entry(replace(shown, check="gradients"), case) is None


@pytest.mark.parametrize(
    ("check", "detail"),
    [("on_device", "aten::nonzero ran on the host 4 times: x"), ("recompile", "step 3: 4 new graphs; x")],
)
def test_the_masks_of_rprop_are_known_and_those_of_other_optimizers_are_not(check: str, detail: str) -> None:
    shown = replaced(MISMATCH, backend="xla_spmd", side="xla", check=check, detail=detail)
    evidence = {DECIDED_BY: "feature.optimizer"}
    assert read_ledger().entry(shown, trained_with("optimizer", kind="rprop"), TODAY, evidence)
    assert read_ledger().entry(shown, trained_with("optimizer", kind="rmsprop"), TODAY, evidence) is None


def test_more_graphs_of_rprop_are_known_where_the_optimizer_decides_them() -> None:
    shown = replaced(
        MISMATCH, backend="xla_spmd", side="xla", check="recompile", detail="step 3: 4 new graphs"
    )
    assert entry(shown, trained_with("optimizer", kind="rprop")) is None


@pytest.mark.parametrize(
    ("greatest", "known"), [("9.1e-08", True), ("0.0057", True), ("0.25", False), ("3", False)]
)
def test_a_result_of_elu_is_known_to_be_slightly_wrong(greatest: str, *, known: bool) -> None:
    shown = on_xla(
        forward("nn.functional.elu"), f"1 / 4 elements differ; greatest {greatest}, 90 x the noise"
    )
    assert bool(entry(shown, cut("nn.functional.elu"))) is known


def test_zeros_that_lose_their_sign_are_known_and_those_that_get_one_are_not() -> None:
    shown = on_xla(forward("neg"), "2 / 4 zeros have the other sign, all 0.0 for -0.0", check="zero_signs")
    assert entry(shown, cut("neg"))
    either = on_xla(forward("neg"), "2 / 4 zeros have the other sign", check="zero_signs")
    assert entry(either, cut("neg")) is None


def test_a_feature_is_a_fact_of_a_case_with_its_options() -> None:
    case = trained_with("implementation", kind="fused")
    assert facts(case)["features"] == " implementation  implementation.kind=fused "
