"""Entries of the ledger for faults that torch 2.15 and a night showed: each knows its own alone."""

import pytest
from msgspec.structs import replace
from sample_programs import a_program, an_operator
from samples import a_case
from sentences import replaced
from shown_operators import backward, cut, entry, failed, forward, on_xla, wrong

from difftest.cases.case import Case
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Shard
from difftest.cases.options import Feature, Spelling
from difftest.cases.wrapping import Sharding
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

MIXED = "RuntimeError: aten.{} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor"
NO_DIMS = "IndexError: too many indices for tensor of dimension 0 (got 1)"
GRADIENT = "RuntimeError: Function {} returned an invalid gradient at index 0 - got [4, 1, 1, 4]"
IN_PLACE = "RuntimeError: aten.{}: in-place operations that require placement changes are not supported."
TWO_CUTS = "ValueError: Tensor dim 0 is already sharded on mesh dim 0, DTensor does not support things like "
MIXES = "AssertionError: aten.convolution_backward.default: strategy position 0 mixes None with placements"
SECOND = "RuntimeError: This operation would remove or reshape sharded dimension 1, which requires"
ADAM = "3 / 3 elements (100.0%) differ; greatest 2.8e-05, 515 x the rounding noise 3.9e-08"
CONV = a_case((Conv(inputs=2, outputs=2, kernel=3), Linear(inputs=2, outputs=4)), sequence=4)
GRID = a_case((Linear(inputs=4, outputs=4),), mesh=(("dp", 1), ("tp", 2)))
STEP = a_program(an_operator("aten._fused_adam_"))
RPROP = replace(CONV, features=(Feature(name="optimizer", options={"kind": "rprop"}),))
LINEAR = a_case((Linear(inputs=4, outputs=4),), mesh=(("dp", 2),))


SHAPE = "RuntimeError: shape '[32, 6]' is invalid for input of size 216"
SHARD = "RuntimeError: Given weight of size [4, 8, 3, 3],"
NO_RULE = "NotImplementedError: Operator aten.{}.default does not have a sharding strategy registered."
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
TO_PARTIAL = "RuntimeError: redistribute from S(0) to P not supported yet"
CHUNKS = "RuntimeError: _chunk_cat expects non-empty tensor"
HEADS = "RuntimeError: scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size"
FEW_ROWS = a_case((Linear(inputs=4, outputs=3),), mesh=(("tp", 4),), sharded={"0.weight": (Shard(0),)})
MSE = a_case((Linear(inputs=4, outputs=4),), mesh=(("tp", 4),), spelling=Spelling(torch_loss=True))


BEFORE = "step 0, backward, 0.weight: 3 / 12 elements (25.0%) differ"
UNPLACED = "ValueError: Placements not available: XLAShardedTensor requires mesh_shape and partition_spec"


def uneven_layer(*axes: tuple[str, int]) -> Case:
    """A layer of torch's whose input has three rows on the two ranks of the last axis."""
    operand = Operand(shape=(2, 3, 4))
    layer = an_operator("nn.TransformerEncoderLayer", operands={"input": operand})
    places = (Shard(0), Shard(1))[-len(axes) :]
    return a_program(layer, sharded={"0.input": places}, mesh=axes)


def kept() -> Divergence:
    """A running mean that batch norm leaves as it was."""
    name = "nn.BatchNorm2d"
    return wrong("parameters", name, Stage.UPDATE, "0.running_mean", nature=f"{name}, operand not changed")


def loss_is_nan() -> Divergence:
    shown = forward("", tensor="loss")
    return replace(shown, check="finite", symptom=Symptom.NONFINITE)


def block(name: str, axis: str) -> Case:
    layer = BuildingBlock(block=name, arguments={}, parameters={"inner.weight": (4,)}, inputs=4, outputs=4)
    return a_case((layer,), mesh=((axis, 1),))


def refused(stage: Stage, message: str) -> Divergence:
    return replace(failed("", stage, message), symptom=Symptom.CAPABILITY)


def adam(said: str) -> Divergence:
    shown = forward("aten._fused_adam_")
    return replaced(shown, detail=f"step 0, forward, 0.output.0: {said}")


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (failed("", Stage.BACKWARD, NO_DIMS), cut("gather")),
        (replace(failed("index_add", Stage.FORWARD, NO_DIMS), backend="torch_ddp"), cut("index_add")),
        (failed("nn.Upsample", Stage.FORWARD, MIXED.format("_unsafe_index.Tensor")), cut("nn.Upsample")),
        (failed("", Stage.FORWARD, MIXED.format("_unsafe_index.Tensor")), block("unet", "dp")),
        (
            failed("nn.ReplicationPad3d", Stage.FORWARD, MIXED.format("_unsafe_index.Tensor")),
            cut("nn.ReplicationPad3d"),
        ),
        (
            failed("nn.functional.max_pool3d", Stage.FORWARD, MIXED.format("index.Tensor")),
            cut("nn.functional.max_pool3d"),
        ),
        (failed("nn.GRU", Stage.FORWARD, MIXED.format("_cudnn_rnn.default")), cut("nn.GRU")),
        (adam(ADAM), STEP),
        (
            failed("squeeze.multiple", Stage.BACKWARD, GRADIENT.format("SqueezeBackward5")),
            cut("squeeze.multiple"),
        ),
        (failed("polar", Stage.BACKWARD, "RuntimeError: unhashable type: 'complex'"), cut("polar")),
        (failed("masked.cumprod", Stage.FORWARD, "RuntimeError: 2"), cut("masked.cumprod")),
        (refused(Stage.UPDATE, IN_PLACE.format("masked_fill_.Scalar")), RPROP),
        (refused(Stage.FORWARD, f"{TWO_CUTS} hybrid sharding strategies yet"), CONV),
        (refused(Stage.BACKWARD, SECOND), GRID),
        (failed("", Stage.BACKWARD, MIXES), GRID),
        (failed("", Stage.BACKWARD, "IndexError: tuple index out of range"), block("depthwise", "dp")),
        (backward("", detail=BEFORE), block("unet", "tp")),
        (failed("", Stage.FORWARD, f"{SHARD} expected bias to be 1-dimensional"), block("unet", "tp")),
        (refused(Stage.BACKWARD, NO_RULE.format("avg_pool2d_backward")), LINEAR),
        (refused(Stage.BACKWARD, NO_RULE.format(f"{ATTENTION}_backward")), LINEAR),
        (on_xla(forward("nn.TransformerEncoderLayer")), uneven_layer(("dp", 2), ("tp", 2))),
        (replace(failed("", Stage.FORWARD, UNPLACED), backend="xla_dtensor"), LINEAR),
        (kept(), cut("nn.BatchNorm2d")),
        (refused(Stage.BACKWARD, TO_PARTIAL), GRID),
        (failed("", Stage.BACKWARD, SHAPE), GRID),
        (replace(failed("", Stage.BACKWARD, CHUNKS), backend="torch_tp"), GRID),
        (failed("", Stage.FORWARD, HEADS), LINEAR),
        (refused(Stage.FORWARD, IN_PLACE.format("tanh_.default")), block("recurrent", "dp")),
        (replace(refused(Stage.UPDATE, IN_PLACE.format("add_.Tensor")), backend="torch_tp"), FEW_ROWS),
        (forward("", tensor="loss", predicted=("mean_of_shards",)), MSE),
        (loss_is_nan(), MSE),
    ],
)
def test_a_fault_that_torch_2_15_showed_is_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case)


@pytest.mark.parametrize(
    ("shown", "case"),
    [
        (failed("gather", Stage.BACKWARD, "IndexError: too many indices for tensor of dimension 1"), LINEAR),
        (failed("nn.Upsample", Stage.FORWARD, MIXED.format("index.Tensor")), cut("nn.Upsample")),
        (failed("", Stage.FORWARD, MIXED.format("_unsafe_index.Tensor")), LINEAR),
        (failed("", Stage.FORWARD, MIXED.format("_cudnn_rnn.default")), LINEAR),
        (adam(ADAM.replace("515 x", "5.1e+03 x")), STEP),
        (adam(ADAM.replace("2.8e-05", "0.281")), STEP),
        (failed("unsqueeze", Stage.BACKWARD, GRADIENT.format("UnsqueezeBackward0")), cut("unsqueeze")),
        (failed("polar", Stage.FORWARD, "RuntimeError: unhashable type: 'complex'"), cut("polar")),
        (failed("masked.cumprod", Stage.FORWARD, "RuntimeError: 2 is out of range"), cut("masked.cumprod")),
        (refused(Stage.UPDATE, IN_PLACE.format("masked_fill_.Scalar")), CONV),
        (refused(Stage.FORWARD, f"{TWO_CUTS} hybrid sharding strategies yet"), LINEAR),
        (refused(Stage.BACKWARD, SECOND), LINEAR),
        (failed("", Stage.BACKWARD, MIXES), CONV),
        (failed("", Stage.BACKWARD, "IndexError: tuple index out of range"), block("unet", "dp")),
        (backward("", detail=BEFORE), block("unet", "dp")),
        (backward("", nature="negated", detail=BEFORE), block("unet", "tp")),
        (backward("", detail=BEFORE.replace("0.weight", "1.inner.weight")), block("unet", "tp")),
        (failed("", Stage.FORWARD, f"{SHARD} expected bias to be 1-dimensional"), LINEAR),
        (refused(Stage.BACKWARD, NO_RULE.format("avg_pool3d_backward")), LINEAR),
        (on_xla(forward("nn.TransformerEncoderLayer")), uneven_layer(("tp", 2))),
        (replace(failed("", Stage.FORWARD, UNPLACED), backend="xla_spmd"), LINEAR),
        (kept(), STEP),
        (refused(Stage.BACKWARD, TO_PARTIAL), LINEAR),
        (failed("", Stage.BACKWARD, SHAPE), LINEAR),
        (replace(failed("", Stage.BACKWARD, CHUNKS), backend="torch_fsdp"), LINEAR),
        (failed("", Stage.BACKWARD, HEADS), LINEAR),
        (refused(Stage.FORWARD, IN_PLACE.format("tanh_.default")), LINEAR),
        (replace(refused(Stage.UPDATE, IN_PLACE.format("add_.Tensor")), backend="torch_tp"), GRID),
        (forward("", tensor="output"), MSE),
        (forward("", tensor="loss"), LINEAR),
        (loss_is_nan(), LINEAR),
    ],
)
def test_another_fault_like_one_that_torch_2_15_showed_is_not_known(shown: Divergence, case: Case) -> None:
    assert entry(shown, case) is None


def divided(*axes: tuple[str, int], factor: float = 3.0, summed: bool = True, dtype: str = "float32") -> Case:
    sharding = Sharding(gradient_divide_factor=factor, summed=summed)
    return replace(a_case((Linear(inputs=4, outputs=4),), mesh=axes), sharding=sharding, dtype=dtype)


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        ("torch_fsdp", divided(("dp_shard", 1))),
        ("torch_fsdp", divided(("dp_replicate", 2), ("dp_shard", 1))),
        ("torch_fsdp", divided(("dp_shard", 1), summed=False, dtype="float16")),
        ("torch_tp", divided(("dp_shard", 1), ("tp", 2))),
    ],
)
def test_a_factor_that_fsdp2_divides_by_twice_on_one_rank_is_known(backend: str, case: Case) -> None:
    assert entry(replace(backward("", nature="times a constant"), backend=backend), case)
    assert entry(replace(backward(""), backend=backend), case) is None


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        ("torch_fsdp", divided(("dp_shard", 2))),
        ("torch_fsdp", divided(("dp_shard", 1), factor=1.0)),
        ("torch_fsdp", divided(("dp_shard", 1), summed=False)),
        ("torch_tp", divided(("dp_shard", 2), ("tp", 1))),
        ("torch_ddp", divided(("dp_shard", 1))),
    ],
)
def test_where_fsdp2_divides_once_a_wrong_gradient_is_not_known(backend: str, case: Case) -> None:
    assert entry(replace(backward("", nature="times a constant"), backend=backend), case) is None
