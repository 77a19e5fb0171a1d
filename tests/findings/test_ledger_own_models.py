"""Known faults of torch that users' models run into: what matches, and what does not."""

from datetime import date
from pathlib import Path

import msgspec
import pytest
from own_models import own_case
from sentences import replaced

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from difftest.findings.ledger import read_ledger
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage

TODAY = date(2026, 11, 27)
RELEASED = "AssertionError: no message; raised by: assert self.mask_buffer.data is not None"
MIXED = "RuntimeError: aten.cat.default: got mixed torch.Tensor and DTensor, need to convert all"
UNCUT_BIAS = (
    "RuntimeError: Given weight of size [24, 3, 16, 16], expected bias to be 1-dimensional with 24 elements, "
    "but got bias of size [48] instead"
)
STRIDE = (
    "RuntimeError: It requires that input_size[3] is divisible by stride[1] and stride[1] equals "
    "kernel_size[3] when there is padding for tensor parallel convolution."
)
TO_PARTIAL = "RuntimeError: redistribute from S(2) to P not supported yet"
FLATTENED = (
    "RuntimeError: Sharding propagation failed for Op(op=aten.{}.default, args_schema=Spec(S(1) on (4, 4, "
    "12, 8)), [16, 12, 8]) RuntimeError: ('Attempted to flatten multiple dimensions, with dimension 1 being "
    "sharded. ', 'It cannot be performed without redistribution, which is disallowed by the operator.')"
)
ATTENTION = {"modules": {"": "Net", "table": "BloomAttention", "head": "Linear"}}
EINSUM = FLATTENED.replace("S(1) on (4, 4, 12, 8)), [16, 12, 8]", "S(2) on (8, 4, 6, 1)), [1, 8, 24]")
THREADS = (
    "AssertionError: no message; raised by: assert CURRENT_PATCHER is not None",
    "RuntimeError: Metric(s) {'is_forward'} have already been set in the current context.",
)
CONVOLUTION = {"modules": {"": "Net", "table": "Conv2d", "head": "Linear"}}
SHARED_MASK = "RuntimeError: MaskBuffer has been materialized with conflicting data"
WITHOUT_RULE = "NotImplementedError: Operator aten.{} does not have a sharding strategy registered."
WITHOUT_KERNEL = """NotImplementedError: "{}" not implemented for 'Int'"""
COUNTED = """RuntimeError: "histogram_cpu" not implemented for 'torch.int32'"""
UNNEEDED = (
    "RuntimeError: ShardingPropagator error: output 3 of "
    "aten::_scaled_dot_product_efficient_attention_backward does not have an associated TensorMeta"
)
BESIDE = (
    "RuntimeError: aten._foreach_add_.List: got mixed torch.Tensor and DTensor, need to convert all "
    "torch.Tensor to DTensor before calling distributed operators!"
)
TABLE = {"modules": {"": "Net", "table": "Embedding", "head": "Linear"}}


def failed(sentence: str) -> Divergence:
    plain = Divergence(
        backend="torch_dtensor",
        side="torch",
        path="tensor_parallel",
        check="completion",
        symptom=Symptom.EXCEPTION,
        stage=Stage.FORWARD,
    )
    return replaced(plain, detail=sentence)


def in_backward(sentence: str) -> Divergence:
    plain = msgspec.structs.replace(failed(""), stage=Stage.BACKWARD)
    return replaced(plain, detail=f"step 0, backward, rank 0: {sentence}")


def in_update(sentence: str, backend: str) -> Divergence:
    plain = msgspec.structs.replace(failed(""), stage=Stage.UPDATE, backend=backend)
    return replaced(plain, detail=f"step 0, update, rank 0: {sentence}")


def of_xla(sentence: str) -> Divergence:
    return msgspec.structs.replace(failed(sentence), backend="xla_spmd", side="xla")


def wrong(check: str, stage: Stage, tensor: str) -> Divergence:
    plain = msgspec.structs.replace(failed(""), check=check, symptom=Symptom.MISMATCH, stage=stage)
    numbers = "1 / 1 elements (100.0%) differ; greatest 0.2, 1e+03 x the rounding noise 0.0002"
    return replaced(plain, detail=f"step 0, {stage}, {tensor}: {numbers}")


def name_of(shown: Divergence, case: Case) -> str:
    entry = read_ledger().entry(shown, case, TODAY)
    return entry.reason if entry else ""


@pytest.mark.parametrize(
    ("shown", "fields", "reason"),
    [
        (failed(f"step 0, forward, rank 0: {RELEASED}"), TABLE, "sharded embedding can be used only once"),
        (failed(f"step 0, forward, rank 0: {SHARED_MASK}"), {}, "of one size share the mask"),
        (
            failed(f"step 0, forward, rank 0: {WITHOUT_RULE.format('fill_.Tensor')}"),
            {},
            "no rule for a number that is assigned",
        ),
        (
            of_xla(f"step 0, forward, rank 0: {WITHOUT_KERNEL.format('histogram_cpu')}"),
            {},
            "histc of integers runs on the host",
        ),
        (failed(f"step 0, forward, rank 0: {COUNTED}"), {}, "fake tensors of the CPU"),
        (in_backward(UNNEEDED), {}, "expects a gradient of the mask"),
        (in_update(BESIDE, "torch_tp"), {}, "`foreach` refuses plain tensors beside DTensors"),
        (
            failed(f"step 0, forward, rank 0: {UNCUT_BIAS}"),
            CONVOLUTION,
            "shard of the weight for all of it",
        ),
        (failed(f"step 0, forward, rank 0: {STRIDE}"), {}, "whose stride is not its kernel's size"),
        *(
            (of_xla(f"step 0, backward, rank 0: {one}"), {}, "trace the body of scan at once")
            for one in THREADS
        ),
        (failed(f"step 0, forward, rank 0: {EINSUM.format('_unsafe_view')}"), {}, "einsum of a sharded dim"),
        (
            failed(f"step 0, forward, rank 0: {FLATTENED.format('_unsafe_view')}"),
            ATTENTION,
            "matrices that are sharded over heads",
        ),
        (failed(f"step 0, backward, rank 0: {MIXED}"), {}, "a part of a chunk that is not used"),
        (
            wrong("loss", Stage.FORWARD, "loss"),
            {"mean_over": "targets"},
            "mean of a cross entropy over a sharded batch",
        ),
        (
            wrong("gradients", Stage.BACKWARD, "0.decay"),
            {"loops": ["scan"]},
            "what goes through the state of scan",
        ),
    ],
)
def test_what_torch_does_wrong_with_a_users_model_is_known(
    tmp_path: Path, shown: Divergence, fields: dict[str, object], reason: str
) -> None:
    assert reason in name_of(shown, own_case(tmp_path, **fields))


def test_a_sharded_tensor_that_is_added_in_place_to_a_partial_sum_is_known_on_an_axis_of_tensor_parallelism(
    tmp_path: Path,
) -> None:
    plain, shown = own_case(tmp_path), failed(f"step 0, forward, rank 0: {TO_PARTIAL}")
    assert "`a += b` fails" in name_of(shown, plain.changed("layout", mesh=Mesh((("tp", 2),))))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("tensor_parallel", "shard of the weight for all of it"),
        ("data_parallel", "even where nothing is sharded"),
    ],
)
def test_a_refused_stride_is_of_the_sharded_kernel_where_parameters_are_sharded(
    tmp_path: Path, path: str, reason: str
) -> None:
    case = msgspec.structs.replace(own_case(tmp_path, **CONVOLUTION), path=path)
    assert reason in name_of(failed(f"step 0, forward, rank 0: {STRIDE}"), case)


@pytest.mark.parametrize(
    ("shown", "fields"),
    [
        (failed(f"step 0, forward, rank 0: {RELEASED}"), {"modules": {"": "Net", "head": "Linear"}}),
        (failed(f"step 0, forward, rank 0: {MIXED}"), {}),
        (failed(f"step 0, forward, rank 0: {UNCUT_BIAS}"), {}),
        (of_xla(f"step 0, forward, rank 0: {SHARED_MASK}"), {}),
        (of_xla(f"step 0, forward, rank 0: {STRIDE}"), CONVOLUTION),
        (failed(f"step 0, forward, rank 0: {FLATTENED.format('view')}"), CONVOLUTION),
        (failed(f"step 0, forward, rank 0: {FLATTENED.format('_unsafe_view')}"), CONVOLUTION),
        (failed(f"step 0, forward, rank 0: {EINSUM.format('view')}"), {}),
        (failed(f"step 0, forward, rank 0: {TO_PARTIAL}"), {}),
        *((failed(f"step 0, backward, rank 0: {one}"), {}) for one in THREADS),
        (failed(f"step 0, forward, rank 0: {WITHOUT_RULE.format('fill_.Scalar')}"), {}),
        (of_xla(f"step 0, forward, rank 0: {WITHOUT_KERNEL.format('renorm_cpu')}"), {}),
        (failed(f"step 0, forward, rank 0: {WITHOUT_KERNEL.format('histogram_cpu')}"), {}),
        (in_backward(UNNEEDED.replace("output 3", "output 0")), {}),
        (in_backward(COUNTED), {}),
        (in_update(BESIDE, "torch_ddp"), {}),
        (in_update(BESIDE.replace("_foreach_add_", "add_"), "torch_tp"), {}),
        (wrong("loss", Stage.FORWARD, "loss"), {}),
        (wrong("loss", Stage.FORWARD, "output"), {"mean_over": "targets"}),
        (wrong("gradients", Stage.BACKWARD, "0.decay"), {}),
        (wrong("parameters", Stage.UPDATE, "0.decay"), {"loops": ["scan"]}),
    ],
)
def test_a_similar_divergence_elsewhere_is_not(
    tmp_path: Path, shown: Divergence, fields: dict[str, object]
) -> None:
    assert not name_of(shown, own_case(tmp_path, **fields))
