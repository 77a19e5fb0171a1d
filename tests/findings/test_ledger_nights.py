"""Entries of the project's ledger for faults that a night showed: each knows its fault, and no other one."""

import pytest
from msgspec.structs import replace
from sample_programs import a_program, an_operator
from samples import a_case
from shown_operators import (
    HIDES_NAN,
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
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.flash_attention import BLOCK, FlashAttention
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Shard
from difftest.cases.options import Feature, Spelling
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

MIXED = "RuntimeError: aten.{} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor"
EMPTY = (
    "RuntimeError: Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
)
COPIES = "AssertionError: found no DeviceMesh from dtensor args for aten._foreach_copy_.default"
ROW = (
    "RuntimeError: This operation would remove or reshape sharded dimension 0, which requires redistribution."
)
PLAIN = a_case((Linear(inputs=4, outputs=4),))
ATTENTION = FlashAttention(width=8, heads=2, head_dim=4, length=BLOCK, keys=BLOCK, causal=True)
FLASH = a_case((ATTENTION, Linear(inputs=8, outputs=4)), sequence=BLOCK)
NO_CHANNELS = "RuntimeError: avg_pool3d(): Expected input to have non-zero size for non-batch dimensions, but"
LISTS = "RuntimeError: Tensor meta for aten._fused_adamw.default should be a list[TensorMeta]"
OUT = "RuntimeError: Strategy length 2 != expected 3 (schema_outputs=1 + inputs=2) for aten.amax.out."
SCALAR = "RuntimeError: output with shape [] doesn't match the broadcast shape [1]"
SGD = "AssertionError: found no DeviceMesh from dtensor args for aten._fused_sgd_.default"
HALF_SUM = "ValueError: AllReduce for datatype 'bf16' is not supported"
PINNED = replace(PLAIN, dtype="bfloat16", spelling=Spelling(pin_layout=True))
FUSED = replace(PLAIN, features=(Feature(name="implementation", options={"kind": "fused"}),))
DOUBLE = replace(cut("log10"), dtype="float64")
FLAT = "RuntimeError: ('Attempted to flatten multiple dimensions, with dimension 1 being sharded. '"
NO_WEIGHT = (
    "RuntimeError: Given groups=1, expected weight to be at least 1 at dimension 0, but got weight of size "
    "[0, 2, 5] instead"
)
NARROW = a_case(
    (Conv(inputs=2, outputs=1, kernel=5),), sharded={"0.weight": (Shard(0),)}, fed=Data(batch=4), sequence=8
)
RPROP = replace(PLAIN, features=(Feature(name="optimizer", options={"kind": "rprop"}),))
ALONE = a_case((Linear(inputs=4, outputs=4),), mesh=(("dp", 1), ("tp", 2)))
NORM = a_case(
    (BuildingBlock(block="batch_norm", arguments={}, parameters={"norm.weight": (4,)}, inputs=4, outputs=4),)
)

WAS_INFINITE = ("not infinity", "2 values are numbers where the oracle's are infinity, on ranks [0]")
TYPES, UNLIKE = "RuntimeError: Binary op", "with different element types: f32[3] and s32[3]."
NONFINITE = replace(cut("clamp"), data=replace(cut("clamp").data, regime="nonfinite"))
SMOOTH = "nn.functional.smooth_l1_loss"
CONVOLUTION = "RuntimeError: Sharding propagation failed on op Op(op=aten.convolution.default, args)"
VALID = a_program(an_operator("nn.functional.conv2d", options={"padding": "valid"}))
HALF = replace(cut("nn.functional.pairwise_distance"), dtype="float16")
KINKS = replace(cut("clamp"), data=replace(cut("clamp").data, regime="kinks"))


def program(name: str, rows: int) -> Case:
    """A program of one operator, whose operand has so many rows, cut over two ranks."""
    operand = Operand(shape=(rows, 3))
    return a_program(an_operator(name, operands={"input": operand}), sharded={"0.input": (Shard(0),)})


def aborted(name: str) -> Divergence:
    message = "SIGABRT: terminate called after throwing an instance of 'gloo::EnforceNotMet'"
    return replace(failed(name, Stage.BACKWARD, message), symptom=Symptom.CRASH)


def nonfinite(name: str, nature: str) -> Divergence:
    shown = backward(name, nature=f"{name}, {nature}")
    return replace(shown, check="finite", symptom=Symptom.NONFINITE)


def of_newest(shown: Divergence) -> Divergence:
    return replace(shown, backend=f"{shown.backend}@newest")


def cut_nothing(name: str) -> Case:
    return a_program(an_operator(name))


def dtype(operator: str) -> Divergence:
    return wrong("shape", operator, Stage.FORWARD, "0.output")


def refused(shown: Divergence) -> Divergence:
    return replace(shown, symptom=Symptom.CAPABILITY)


def in_a_model(stage: Stage, message: str) -> Divergence:
    return failed("", stage, message)


def of_a_buffer(name: str, backend: str, nature: str = "zero", predicted: tuple[str, ...] = ()) -> Divergence:
    shown = wrong("buffers", "", Stage.UPDATE, name, nature=nature, predicted=predicted)
    return replace(shown, backend=backend)


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (forward("nn.SmoothL1Loss", predicted=("mean_of_means",)), program("nn.SmoothL1Loss", 3)),
        (forward("nn.BCEWithLogitsLoss", predicted=("mean_of_means",)), program("nn.BCEWithLogitsLoss", 3)),
        (failed("argwhere", Stage.FORWARD, "RuntimeError: aten.nonzero.default"), cut("argwhere")),
        (failed("nn.AvgPool1d", Stage.FORWARD, f"{EMPTY}[0, 1, 6]"), program("nn.AvgPool1d", 1)),
        (failed("nn.AvgPool2d", Stage.FORWARD, f"{EMPTY}[0, 6, 6]"), program("nn.AvgPool2d", 1)),
        (on_xla(refused(in_a_model(Stage.PLACE, HALF_SUM))), PINNED),
        (
            failed("masked_select", Stage.FORWARD, "RuntimeError: aten.masked_select.default"),
            cut("masked_select"),
        ),
        (failed("nn.MaxPool3d", Stage.FORWARD, f"{NO_CHANNELS} [0, 3, 6, 5]"), program("nn.MaxPool3d", 1)),
        (failed("nn.Conv2d", Stage.FORWARD, "RuntimeError: kernel size should be"), program("nn.Conv2d", 1)),
        (failed("aten._fused_adamw", Stage.FORWARD, LISTS), cut("aten._fused_adamw")),
        (backward("nn.SmoothL1Loss", nature="nn.SmoothL1Loss, times a number of ranks"), PLAIN),
        (backward("nn.SoftMarginLoss", nature="nn.SoftMarginLoss, times a number of ranks"), PLAIN),
        (failed("amax", Stage.FORWARD, OUT), cut("amax")),
        (failed("quantile", Stage.FORWARD, SCALAR), cut("quantile")),
        (
            failed("t", Stage.BACKWARD, "RuntimeError: Function TBackward1 returned an invalid gradient"),
            cut("t"),
        ),
        (in_a_model(Stage.UPDATE, SGD), FUSED),
        (failed("select_scatter", Stage.BACKWARD, MIXED.format("select_scatter.default")), PLAIN),
        (failed("diagonal_scatter", Stage.BACKWARD, MIXED.format("diagonal_scatter.default")), PLAIN),
        (failed("nn.GRU", Stage.FORWARD, MIXED.format("addmm.default")), PLAIN),
        (on_xla(forward("log10"), "1 / 1 elements (100.0%) differ; greatest 1.3e-09, 1 x"), DOUBLE),
        (on_xla(dtype("xlogy"), "has dtype float64, expected float32"), cut("xlogy")),
        (on_xla(dtype("native_dropout_backward"), "has dtype uint8, expected float32"), PLAIN),
        (failed("nn.Transformer", Stage.FORWARD, MIXED.format("eq.Tensor")), cut("nn.Transformer")),
        (in_a_model(Stage.FORWARD, MIXED.format("add.Tensor")), FLASH),
        (replace(in_a_model(Stage.UPDATE, COPIES), backend="torch_fsdp"), RPROP),
        (refused(in_a_model(Stage.FORWARD, ROW)), ALONE),
        (refused(in_a_model(Stage.FORWARD, FLAT)), FLASH),
        (in_a_model(Stage.FORWARD, NO_WEIGHT), NARROW),
        (of_a_buffer("0.norm.running_mean", "torch_dtensor"), NORM),
        (of_a_buffer("0.norm.running_var", "torchax", "", predicted=("kept_statistics",)), NORM),
        (
            backward("nn.functional.smooth_l1_loss", nature="nn.functional.smooth_l1_loss, times a constant"),
            PLAIN,
        ),
        (aborted("aten.native_dropout"), program("aten.native_dropout", 1)),
        (failed("softmax", Stage.FORWARD, "RuntimeError: Invalid scalar type"), cut("softmax")),
        (failed("nn.functional.conv2d", Stage.FORWARD, f"{CONVOLUTION} list index out of range"), VALID),
        (failed("inner", Stage.FORWARD, "RuntimeError: list index out of range"), cut("inner")),
        (backward("nn.functional.pairwise_distance"), HALF),
        (of_newest(backward("clamp_min")), KINKS),
        (of_newest(nonfinite("clamp", "not numbers")), KINKS),
        (of_newest(nonfinite("atan2", "not NaN")), KINKS),
        (other_kinds(forward("clamp_min"), *WAS_INFINITE), NONFINITE),
        (other_kinds(forward("nn.functional.hinge_embedding_loss"), *WAS_NAN), NONFINITE),
        (other_kinds(forward("nn.functional.hardtanh"), *HIDES_NAN), NONFINITE),
        (other_kinds(backward("nn.functional.hardswish"), *HIDES_NAN), NONFINITE),
        (on_xla(failed("clamp_max", Stage.FORWARD, f"{TYPES} minimum {UNLIKE}")), PLAIN),
    ],
    ids=lambda shown: shown.detail[:60] if isinstance(shown, Divergence) else "",
)
def test_a_fault_that_a_night_showed_is_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case)


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (forward("nn.SmoothL1Loss"), program("nn.SmoothL1Loss", 4)),
        (forward("nn.TripletMarginLoss"), program("nn.TripletMarginLoss", 3)),
        (failed("argwhere", Stage.FORWARD, "RuntimeError: aten.mul.Tensor"), cut("argwhere")),
        (failed("nn.MaxPool3d", Stage.FORWARD, f"{NO_CHANNELS} [0, 3, 6, 5]"), cut_nothing("nn.MaxPool3d")),
        (failed("nn.Linear", Stage.FORWARD, "RuntimeError: kernel size should be"), program("nn.Linear", 1)),
        (failed("aten._fused_sgd", Stage.FORWARD, LISTS), cut("aten._fused_sgd")),
        (backward("nn.L1Loss", nature="nn.L1Loss, times a number of ranks"), PLAIN),
        (on_xla(forward("log10"), "1 / 1 elements (100.0%) differ; greatest 1.3, 1 x"), DOUBLE),
        (on_xla(forward("log10"), "1 / 1 elements (100.0%) differ; greatest 1.3e-09, 1 x"), PLAIN),
        (on_xla(dtype("mul"), "has dtype float64, expected float32"), cut("mul")),
        (failed("select_scatter", Stage.BACKWARD, MIXED.format("slice.default")), PLAIN),
        (failed("diagonal_scatter", Stage.FORWARD, MIXED.format("diagonal_scatter.default")), PLAIN),
        (failed("nn.RNN", Stage.FORWARD, MIXED.format("addmm.default")), PLAIN),
        (failed("aminmax", Stage.FORWARD, OUT), cut("aminmax")),
        (failed("sum", Stage.FORWARD, SCALAR), cut("sum")),
        (failed("mm", Stage.BACKWARD, "RuntimeError: Function TBackward1 returned an invalid"), cut("mm")),
        (replace(in_a_model(Stage.UPDATE, SGD), backend="torch_fsdp"), PLAIN),
        (failed("nn.AvgPool1d", Stage.FORWARD, f"{EMPTY}[0, 1, 6]"), program("nn.AvgPool1d", 4)),
        (failed("nn.AvgPool1d", Stage.FORWARD, f"{EMPTY}[2, 1, 6]"), program("nn.AvgPool1d", 1)),
        (failed("nn.Transformer", Stage.FORWARD, MIXED.format("mul.Tensor")), cut("nn.Transformer")),
        (in_a_model(Stage.FORWARD, MIXED.format("add.Tensor")), PLAIN),
        (replace(in_a_model(Stage.UPDATE, COPIES), backend="torch_fsdp"), PLAIN),
        (refused(in_a_model(Stage.FORWARD, ROW)), PLAIN),
        (refused(in_a_model(Stage.FORWARD, FLAT)), PLAIN),
        (in_a_model(Stage.FORWARD, NO_WEIGHT), PLAIN),
        (on_xla(refused(in_a_model(Stage.PLACE, HALF_SUM))), replace(PLAIN, dtype="bfloat16")),
        (of_a_buffer("0.norm.running_mean", "torch_dtensor", nature=""), NORM),
        (of_a_buffer("0.norm.running_mean", "torch_fsdp"), NORM),
        (of_a_buffer("0.norm.num_batches_tracked", "torchax"), NORM),
        (backward(SMOOTH, nature=f"{SMOOTH}, negated"), PLAIN),
        (aborted("aten.native_dropout"), cut("aten.native_dropout")),
        (failed("softmax", Stage.FORWARD, "RuntimeError: Invalid scalar"), cut("softmax")),
        (failed("nn.functional.conv2d", Stage.FORWARD, f"{CONVOLUTION} list index out of range"), PLAIN),
        (failed("outer", Stage.FORWARD, "RuntimeError: list index out of range"), cut("outer")),
        (backward("nn.functional.pairwise_distance"), PLAIN),
        (backward("clamp_min"), KINKS),
        (of_newest(backward("clamp_min")), replace(KINKS, data=replace(KINKS.data, regime="large"))),
        (nonfinite("clamp", "not numbers"), KINKS),
        (of_newest(nonfinite("atan2", "not numbers")), KINKS),
        (other_kinds(forward("clamp_min"), *WAS_INFINITE), PLAIN),
        (other_kinds(forward("add"), *WAS_INFINITE), NONFINITE),
        (other_kinds(backward("nn.functional.hinge_embedding_loss"), *WAS_NAN), NONFINITE),
        (other_kinds(backward("nn.functional.hardtanh"), *WAS_NAN), NONFINITE),
        (other_kinds(backward("nn.functional.gelu"), *HIDES_NAN), NONFINITE),
        (on_xla(failed("add", Stage.FORWARD, f"{TYPES} minimum {UNLIKE}")), PLAIN),
    ],
    ids=lambda shown: shown.detail[:60] if isinstance(shown, Divergence) else "",
)
def test_another_fault_like_one_that_a_night_showed_is_not_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case) is None
