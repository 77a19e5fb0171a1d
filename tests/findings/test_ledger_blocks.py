"""Entries of the project's ledger about building blocks: which options of which block they are about."""

from typing import Literal

import pytest
from msgspec.structs import replace
from samples import a_case
from shown_operators import TODAY, cut, entry, failed, forward, on_xla, wrong

from difftest.cases.case import Case, Training
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate
from difftest.cases.model import Model
from difftest.cases.options import Feature, Start
from difftest.findings.facts import facts
from difftest.findings.ledger import read_ledger
from difftest.judge.divergence import Divergence, identity
from difftest.judge.facts import NumbersFacts
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY

WRONG = Divergence(
    backend="torch_dtensor",
    side="torch",
    path="blocks",
    check="loss",
    symptom=Symptom.MISMATCH,
    stage=Stage.FORWARD,
    tensor="output",
    facts=NumbersFacts(differing=4, elements=4, greatest=0.5, scale=1.0, floor=1e-7),
    ratio=50.0,
)
MEAN = replace(WRONG, predicted=("cross_entropy_by_rank",))
"""The mean of the ranks' means."""


def of_block(name: str, **options: bool | str | float) -> Case:
    block = BuildingBlock(block=name, arguments=options, parameters={"weight": (4, 4)}, inputs=4, outputs=4)
    return a_case((block,))


def test_the_options_of_layers_are_words_in_one_order() -> None:
    words = "block cross_entropy; block cross_entropy ignored=True; block cross_entropy reduction=mean; "
    assert facts(of_block("cross_entropy", reduction="mean", ignored=True))["layer_options"] == words


@pytest.mark.parametrize(
    ("block", "predicted"),
    [("cross_entropy", "cross_entropy_by_rank"), ("convolution", "exchanged_columns")],
)
def test_a_wrong_output_of_a_block_is_known_where_the_fault_of_dtensor_gives_its_numbers(
    block: str, predicted: str
) -> None:
    assert entry(replace(WRONG, predicted=(predicted,)), of_block(block))
    assert entry(WRONG, of_block(block)) is None


@pytest.mark.parametrize(("operator", "known"), [("unbind.int", True), ("transpose_", True), ("gru", False)])
def test_what_a_gru_needs_is_known_to_have_no_sharding_rule(operator: str, *, known: bool) -> None:
    message = f"Operator aten.{operator}.default does not have a sharding strategy registered."
    message = message.replace("int.default", "int")
    shown = replace(failed("", Stage.FORWARD, message), symptom=Symptom.CAPABILITY)
    assert bool(entry(shown, of_block("recurrent"))) is known


@pytest.mark.parametrize(("buffers", "alone"), [(("turns",), "yes"), (("turns", "more"), "no")])
def test_the_only_buffer_of_a_block_is_a_lone_tensor(buffers: tuple[str, ...], alone: str) -> None:
    held = dict.fromkeys(buffers, (4,))
    rope = BuildingBlock(block="rope", arguments={}, parameters={}, inputs=4, outputs=4, held_buffers=held)
    model = Model(layers=(rope, Linear(inputs=4, outputs=4)))
    layout = replace(PLAIN.layout, parameters=dict.fromkeys(model.tensors(), (Replicate(),)))
    assert facts(replace(PLAIN, model=model, layout=layout))["lone_tensor"] == alone


def with_feature(case: Case, name: str) -> Case:
    return replace(case, features=(Feature(name=name),))


NORMED = a_case((LayerNorm(width=4), Linear(inputs=4, outputs=4)))
PLAIN = a_case((Linear(inputs=4, outputs=4),))
MIXED = "RuntimeError: aten.cat.default: got mixed torch.Tensor and DTensor"
COARSE = (
    "RuntimeError: Sharding propagation failed for Op(op=aten.lerp_.Scalar, args_schema=Spec(R on (4,))) "
    "RuntimeError: expected dtype torch.float32 for `end`, but got dtype torch.bfloat16"
)
EMPTY = "RuntimeError: linalg.vector_norm cannot compute the inf norm on an empty tensor because"


@pytest.mark.parametrize(
    ("stage", "message", "case", "another"),
    [
        (Stage.UPDATE, COARSE, with_feature(NORMED, "autocast"), with_feature(PLAIN, "autocast")),
        (Stage.UPDATE, EMPTY, with_feature(PLAIN, "clip_by_infinity_norm"), PLAIN),
    ],
    ids=["autocast", "infinity"],
)
def test_a_failure_of_a_feature_is_known_where_the_case_has_what_causes_it(
    stage: Stage, message: str, case: Case, another: Case
) -> None:
    shown = failed("", stage, message)
    assert entry(shown, case)
    assert entry(shown, another) is None


@pytest.mark.parametrize(("module", "known"), [("nn.MultiheadAttention", True), ("nn.Linear", False)])
def test_attention_that_adds_zeros_is_known_to_make_a_plain_tensor(module: str, *, known: bool) -> None:
    shown = failed(module, Stage.FORWARD, MIXED)
    assert bool(entry(shown, cut(module))) is known


@pytest.mark.parametrize(
    ("name", "known"), [("cross_entropy", True), ("embedding_bag", True), ("swiglu", False)]
)
def test_what_nll_loss_and_embedding_bag_make_of_a_sharded_tensor_on_xla_is_known_to_lack_its_global_tensor(
    name: str, *, known: bool
) -> None:
    shown = on_xla(failed("", Stage.FORWARD, "RuntimeError: Expected XLA tensor. Got: XLAFloatType"))
    assert bool(entry(replace(shown, backend="xla_dtensor"), of_block(name))) is known
    assert entry(shown, of_block(name)) is None, "SPMD is fed what such tensors wrap"


@pytest.mark.parametrize(("name", "known"), [("embedding_bag", True), ("swiglu", False)])
def test_a_crash_in_the_forward_pass_is_known_of_what_runs_on_the_host(name: str, *, known: bool) -> None:
    function = "torch_xla::runtime::PjRtComputationClient::ExecuteReplicated"
    failure = Failure(
        symptom=Symptom.CRASH,
        kind="SIGSEGV",
        message="Fatal Python error: Segmentation fault",
        frame=function,
        stage=Stage.FORWARD,
        step=0,
    )
    shown = failed("", Stage.FORWARD, "SIGSEGV: Fatal Python error: Segmentation fault")
    shown = replace(shown, backend="xla_spmd", symptom=Symptom.CRASH, cause=identity(failure))
    assert bool(entry(shown, of_block(name))) is known
    assert entry(replace(shown, backend="xla_ddp"), of_block(name)) is None, "DDP enables no SPMD"


@pytest.mark.parametrize(("name", "known"), [("cross_entropy", True), ("swiglu", False)])
def test_a_table_of_logits_is_known_to_be_a_sharded_embedding(name: str, *, known: bool) -> None:
    shown = failed("", Stage.FORWARD, "IndexError: The shape of the mask [4, 16] at index 0 does not match")
    assert bool(entry(shown, of_block(name))) is known


@pytest.mark.parametrize(("operator", "known"), [("view_as_complex", True), ("view_as_other", False)])
def test_complex_views_are_known_to_fail_for_sharded_tensors_on_xla(operator: str, *, known: bool) -> None:
    message = f"RuntimeError: The operator aten::{operator} appears to be a view operator, but it has no"
    shown = on_xla(failed("", Stage.FORWARD, f"{message} implementation for the backend"))
    assert bool(entry(replace(shown, backend="xla_dtensor"), of_block("rope"))) is known
    assert entry(shown, of_block("rope")) is None, "SPMD is fed what such tensors wrap"


@pytest.mark.parametrize(
    ("axes", "nature", "known"),
    [
        ((("dp", 2), ("tp", 2)), "times a number of ranks", True),
        ((("dp", 4),), "times a number of ranks", False),
        ((("dp", 2), ("tp", 2)), "negated", False),
    ],
)
def test_a_depthwise_gradient_is_known_to_be_doubled_beside_a_second_axis(
    axes: tuple[tuple[str, int], ...], nature: str, *, known: bool
) -> None:
    block = BuildingBlock(
        block="depthwise", arguments={}, parameters={"depthwise.weight": (4, 1, 3)}, inputs=4, outputs=4
    )
    shown = wrong("gradients", "", Stage.BACKWARD, "0.depthwise.weight", nature=nature)
    case = a_case((block,), mesh=axes)
    assert bool(entry(on_xla(shown), case)) is known
    assert entry(replace(on_xla(shown), backend="xla_replica"), case) is None, "replicas are not partitioned"


@pytest.mark.parametrize(
    ("how", "parts", "known"), [("scan", 2, True), ("loop", 2, False), ("scan", 1, False)]
)
def test_activations_on_the_host_are_known_to_be_those_of_the_trace_in_a_scan(
    how: Literal["scan", "loop"], parts: int, *, known: bool
) -> None:
    case = replace(PLAIN, start=Start(accumulation=how), training=Training(accumulation=parts))
    shown = on_xla(forward("", "output.1"))
    kept = with_feature(case, "activations_on_host")
    evidence = {DECIDED_BY: "feature.activations_on_host"}
    assert bool(read_ledger().entry(shown, kept, TODAY, evidence)) is known
    assert entry(shown, kept) is None
    assert entry(shown, case) is None
