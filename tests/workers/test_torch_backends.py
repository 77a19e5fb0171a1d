"""The backends on torch's process groups: agreement with the oracle, unsupported cases, and failures."""

import itertools
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from installed_packages import needs
from real_runs import oracle_trace
from samples import a_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Mesh, Replicate, Shard
from difftest.ground import plugins
from difftest.judge.outcome import Failure, Symptom, Trace
from generators.cases import case_at
from workers.isolate import sandbox
from workers.torch import devices

BACKENDS = ("torch_ddp", "torch_dtensor", "torch_fsdp", "torch_tp")
PAIRS = (
    ("data_parallel", "torch_ddp"),
    ("data_parallel", "torch_dtensor"),
    ("fully_sharded", "torch_fsdp"),
    ("fully_sharded", "torch_dtensor"),
    ("hybrid_sharded", "torch_fsdp"),
    ("hybrid_sharded", "torch_dtensor"),
    ("tensor_parallel", "torch_tp"),
    ("tensor_parallel", "torch_dtensor"),
    ("data_tensor", "torch_tp"),
    ("data_tensor", "torch_dtensor"),
)
EVERY_LAYER = (
    Embedding(vocabulary=11, width=8),
    Conv(inputs=8, outputs=8),
    Residual(layers=(RMSNorm(width=8), Attention(width=8, heads=4, kv_heads=2, segments=True))),
    Residual(
        layers=(
            LayerNorm(width=8),
            Linear(inputs=8, outputs=16),
            Activation(function="gelu"),
            Linear(inputs=16, outputs=8),
        )
    ),
    Linear(inputs=8, outputs=11, tied=True),
)
MOST_RANKS = 4
MOST_STEPS = 3
CASES_A_PAIR = 1
"""The nightly campaign has hundreds."""
TOLERANCES = {"float32": 1e-4, "float16": 0.1, "bfloat16": 0.3}
"""Wide: a model amplifies rounding by orders of magnitude, and a wrong reduction is wrong by a factor.

Attention with sharp scores amplifies it beyond any such bound; only the noise floor can judge it, so
these tests leave it out.
"""


def supported(backend: str, case: Case) -> bool:
    return plugins.load("workers.backends", backend).unsupported(case) is None


def plain(case: Case) -> bool:
    """Cases that DTensor of torch 2.9 computes correctly: no norm, clipping, sequence or uneven shards."""
    layers, even = case.model.layers, not case.data.batch % case.world_size
    return (
        even
        and case.training.clip_norm is None
        and all(isinstance(layer, Linear | Activation) for layer in layers)
    )


def generated(path: str, backend: str) -> Iterator[Case]:
    """Generated cases without usual forms, which DTensor does not know all of."""
    drawn = (case_at(11, i, paths=[path], max_world_size=MOST_RANKS) for i in itertools.count())
    cases = (msgspec.structs.replace(case, spelling=msgspec.UNSET) for case in drawn)
    small = (
        case
        for case in cases
        if case.world_size > 1 and case.training.steps <= MOST_STEPS and case.data.regime != "sharp"
    )
    return (
        case for case in small if supported(backend, case) and (backend != "torch_dtensor" or plain(case))
    )


def error(case: Case, backend: str) -> float:
    """Return the greatest root mean square error of any tensor, relative to the tensor's root mean square."""
    expected, actual = oracle_trace(case), sandbox.run(case, backend)
    assert isinstance(actual, Trace), actual
    alone, mesh = case.unsharded().layout.mesh, case.layout.mesh
    greatest = 0.0
    for truths, tensors in zip(expected.steps, actual.steps, strict=True):
        assert set(truths) == set(tensors)
        for key, truth in truths.items():
            assert not tensors[key].misfits(mesh)
            whole = truth.full(alone)
            greatest = max(greatest, float(rms(tensors[key].full(mesh) - whole) / (rms(whole) or 1.0)))
    return greatest


def rms(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


@pytest.mark.slow
@pytest.mark.parametrize(("path", "backend"), PAIRS)
def test_generated_cases_agree_with_the_oracle(path: str, backend: str) -> None:
    for case in itertools.islice(generated(path, backend), CASES_A_PAIR):
        assert error(case, backend) < TOLERANCES[case.dtype], case


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "axes", "shards"),
    [
        ("torch_ddp", (("dp", 8),), None),
        ("torch_fsdp", (("dp_shard", 8),), (Shard(0),)),
        ("torch_fsdp", (("dp_replicate", 2), ("dp_shard", 4)), (Replicate(), Shard(0))),
    ],
)
def test_eight_ranks_train_every_layer_with_fewer_rows_than_ranks(
    backend: str, axes: tuple[tuple[str, int], ...], shards: tuple[Shard | Replicate, ...] | None
) -> None:
    training = Training(
        optimizer="adamw", learning_rate=2**-7, steps=2, accumulation=2, clip_norm=0.5, loss="cross_entropy"
    )
    batch = (Shard(0),) * len(axes)
    case = a_case(EVERY_LAYER, mesh=axes, batch=batch, sequence=6, training=training, fed=Data(batch=10))
    if shards:
        layout = msgspec.structs.replace(
            case.layout, parameters=dict.fromkeys(case.layout.parameters, shards)
        )
        case = msgspec.structs.replace(case, layout=layout)
    assert error(case, backend) < TOLERANCES["float32"]


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["dp", "dp_shard"])
def test_a_data_axis_that_only_replicates_beside_tensor_parallelism_agrees(axis: str) -> None:
    case = a_case(mesh=((axis, 2), ("tp", 2)), batch=(Shard(0), Replicate()), fed=Data(batch=8))
    sliced = (Replicate(), Shard(0))
    layout = msgspec.structs.replace(case.layout, parameters=dict.fromkeys(case.layout.parameters, sliced))
    assert error(msgspec.structs.replace(case, layout=layout), "torch_tp") < TOLERANCES["float32"]


@pytest.mark.slow
def test_a_rank_that_raises_is_a_failure_with_its_exception() -> None:
    layers = (Embedding(vocabulary=8, width=4), Conv(inputs=4, outputs=4))
    outcome = sandbox.run(a_case(layers, sequence=4), "torch_dtensor")
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.kind) == ("forward", "RuntimeError")
    assert outcome.symptom in {Symptom.CAPABILITY, Symptom.EXCEPTION}
    assert "convolution" in outcome.message


@pytest.mark.slow
def test_the_environment_is_recorded_and_bfloat16_is_named() -> None:
    outcome = sandbox.run(a_case(dtype="bfloat16"), "torch_ddp")
    assert isinstance(outcome, Trace)
    assert outcome.environment["transport"] in {"gloo", "nccl"}
    assert outcome.environment["world_size"] == "2"
    assert {tensor.dtype for (_, name), tensor in outcome.steps[0].items() if name == "0.weight"} == {
        "bfloat16"
    }


@pytest.mark.long
def test_the_reason_of_an_unsupported_case_is_a_sentence_without_numbers() -> None:
    for backend, index in itertools.product(BACKENDS, range(60)):
        module = plugins.load("workers.backends", backend)
        case = case_at(0, index)
        reason = module.unsupported(case)
        assert module.processes(case) == case.world_size
        assert reason is None or (" " in reason and not any(c.isdigit() for c in reason))


@pytest.mark.long
def test_a_supported_case_is_supported_on_one_device_too() -> None:
    for backend, index in itertools.product(BACKENDS, range(100)):
        case = case_at(0, index)
        assert not supported(backend, case) or supported(backend, case.unsharded())


def test_backends_of_one_side_share_a_zygote() -> None:
    assert len({plugins.load("workers.backends", name).PRELOAD for name in (*BACKENDS, "oracle")}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "share", "wanted", "transport"),
    [
        (0, "1", ["cpu"] * 4, "gloo"),
        (2, "", ["cpu"] * 4, "gloo"),
        (4, "", ["cuda:0", "cuda:1", "cuda:2", "cuda:3"], "nccl"),
        (2, "1", ["cuda:0", "cuda:1", "cuda:0", "cuda:1"], "gloo"),
        (1, "1", ["cuda:0"] * 4, "gloo"),
        (1, "nccl", ["cuda:0"] * 4, "nccl"),
    ],
)
def test_ranks_get_a_gpu_each_or_share_gpus_on_request(
    monkeypatch: pytest.MonkeyPatch, gpus: int, share: str, wanted: list[str], transport: str
) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(gpus))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(devices, "equalise", lambda _: None)
    monkeypatch.setenv(devices.SHARE_VARIABLE, share)
    for name in ("NCCL_HOSTID", "NCCL_SOCKET_IFNAME", "NCCL_MNNVL_ENABLE"):
        monkeypatch.setenv(name, "")  # so that they are as before afterwards
    case = a_case(mesh=(("dp", 4),))
    chosen = [devices.find(case, rank) for rank in range(4)]
    assert [str(device) for device in chosen] == wanted
    assert devices.transport(case, chosen[0]) == transport
    overridden = {"backend_override": {"dp": "gloo"}} if wanted[0] != "cpu" and transport == "gloo" else {}
    assert devices.groups(chosen[0], transport, ("dp",)) == overridden, (
        "torch gives NCCL to a mesh of one axis by itself"
    )


EQUALISED = """
import os
import msgspec
from generators.cases import case_at
from workers.torch import devices
case = case_at(0, 0)
for kernel in ("cudnn", "flash"):
    devices.equalise(msgspec.structs.replace(case, sdpa=kernel))
    import torch
    cuda = torch.backends.cuda.matmul
    print(torch.get_float32_matmul_precision(), cuda.allow_tf32, torch.backends.cudnn.allow_tf32)
    print(cuda.allow_bf16_reduced_precision_reduction, cuda.allow_fp16_reduced_precision_reduction)
    print(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    print(torch.utils.deterministic.fill_uninitialized_memory, os.environ["CUBLAS_WORKSPACE_CONFIG"])
"""


@pytest.mark.slow
def test_gpu_settings_are_full_precision_and_deterministic_except_for_cudnn_attention() -> None:
    needs("torch", reason="needs torch: pip install 'difftest[xla]'")
    done = subprocess.run([sys.executable, "-c", EQUALISED], capture_output=True, text=True, check=True)
    precise, filled = ("highest False False", "False False"), "False :4096:8"
    assert done.stdout.splitlines() == [*precise, "True True", filled, *precise, "True False", filled]


@pytest.mark.slow
def test_a_strided_shard_of_fsdp_is_read_even_if_is_shard_returns_false() -> None:
    from torch.distributed.tensor import placement_types  # noqa: PLC0415

    from workers.torch import strided  # noqa: PLC0415

    class Newer(placement_types._StridedShard):  # noqa: SLF001  as torch 2.13 has it
        def is_shard(self, dim: int | None = None) -> bool:  # noqa: ARG002
            return False

    mesh = Mesh((("dp", 2), ("tp", 2)))
    placements = (Newer(0, split_factor=2), placement_types.Shard(0))
    rows = [strided.held((6, 5), placements, mesh, rank)[0].tolist() for rank in range(4)]
    assert rows == [[0, 1], [3, 4], [2], [5]], "tp shards first, and dp shards the pieces of tp"


@pytest.mark.slow
def test_a_strided_shard_of_a_flattened_tensor_has_a_part_of_every_chunk() -> None:
    """What torch 2.15 gives for `flatten` of 4 rows, with the columns on `tp`, or with rows on `dp` too."""
    from torch.distributed.tensor import placement_types  # noqa: PLC0415

    from workers.torch import strided  # noqa: PLC0415

    shard, columns = placement_types.Shard(0), placement_types._StridedShard  # noqa: SLF001
    one, two = Mesh((("tp", 2),)), Mesh((("dp", 2), ("tp", 2)))
    alone = [strided.held((8,), (columns(0, split_factor=4),), one, rank)[0].tolist() for rank in range(2)]
    assert alone == [[0, 2, 4, 6], [1, 3, 5, 7]]
    both = [
        strided.held((8,), (shard, columns(0, split_factor=2)), two, rank)[0].tolist() for rank in range(4)
    ]
    assert both == [[0, 2], [1, 3], [4, 6], [5, 7]]
