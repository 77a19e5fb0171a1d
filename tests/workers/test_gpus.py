"""GPUs as the workers use them, as far as it can be tested without one.

The GPUs that are counted, JAX's share of them, and the meaning of their errors.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from installed_packages import needs, skip_without
from samples import a_case

from difftest.cases.layers.collective import Collective
from difftest.cases.layout import Shard
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from generators.cases import case_at
from workers import gpus
from workers.backends import torchax
from workers.xla import devices

torch_needed = skip_without("torch")


@pytest.mark.parametrize(
    ("visible", "counted"),
    [
        (None, 4),
        ("0,1", 2),
        ("", 0),
        ("-1", 0),
        ("0,-1,2", 1),
        ("GPU-8f, GPU-9a", 2),
        ("0,1,2,3,4,5", 4),
        ("0,7,1", 1),
        ("none", 0),
    ],
)
def test_only_gpus_that_the_process_may_use_are_counted(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, counted: int
) -> None:
    monkeypatch.setattr(Path, "glob", lambda _path, _pattern: iter(range(4)))
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    assert gpus.gpu_count() == counted


@pytest.mark.parametrize(
    ("there", "plugin", "platform"),
    [
        (2, "jax_cuda12_plugin", "cuda"),
        (2, "jax_cuda13_plugin", "cuda"),
        (1, "jax_cuda12_plugin", "cpu"),
        (2, "none", "cpu"),
    ],
)
def test_jax_uses_gpus_where_each_rank_has_one_and_preallocates_no_memory(
    monkeypatch: pytest.MonkeyPatch, there: int, plugin: str, platform: str
) -> None:
    monkeypatch.setattr(torchax, "gpu_count", lambda: there)
    monkeypatch.setattr(torchax, "find_spec", lambda name: name == plugin or None)
    environment = torchax.environment(a_case(mesh=(("dp", 2),), batch=(Shard(0),)))
    assert environment[gpus.PLATFORMS] == platform
    assert (environment.get("XLA_PYTHON_CLIENT_PREALLOCATE") == "false") == (platform == "cuda")
    assert ("device_count=2" in environment["XLA_FLAGS"]) == (platform == "cpu")


@pytest.mark.parametrize(
    ("kind", "chips", "platform"), [("TPU", 4, "tpu"), ("TPU", 1, "cpu"), ("CPU", 4, "cpu")]
)
def test_jax_uses_chips_where_each_rank_has_one(
    monkeypatch: pytest.MonkeyPatch, kind: str, chips: int, platform: str
) -> None:
    monkeypatch.setattr(torchax, "gpu_count", lambda: 0)
    monkeypatch.setattr(devices, "kind", lambda: kind)
    monkeypatch.setattr(devices, "chips", lambda: chips)
    assert torchax.environment(a_case(mesh=(("dp", 2),), batch=(Shard(0),)))[gpus.PLATFORMS] == platform


@pytest.mark.slow
@torch_needed
def test_an_asynchronous_error_of_a_kernel_has_no_frame() -> None:
    import torch  # noqa: PLC0415

    from workers.exceptions import explain  # noqa: PLC0415

    def frame(message: str) -> str:
        try:
            torch._assert(False, message)  # noqa: FBT003, SLF001  raised by a frame of torch's
        except AssertionError as error:
            return explain(error, Stage.FORWARD, 0, 0).frame
        raise AssertionError

    assert frame("shapes differ") == "torch/__init__.py:_assert"
    assert frame("CUDA error: device-side assert triggered") == ""
    assert (
        explain(RuntimeError("CUDA error: operation not supported"), Stage.FORWARD, 0, 0).symptom
        is Symptom.EXCEPTION
    )


@pytest.mark.slow
@torch_needed
@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "CUDA error: all CUDA-capable devices are busy or unavailable",
        "CUDA error: no kernel image is available for execution on the device",
        "The TPU is already in use by process with pid 17. Not attempting to load libtpu.so in this process.",
        (
            "NCCL: Error while creating shared memory segment /dev/shm/nccl-1 (size 9637888), "
            "error: No space left on device (28)"
        ),
    ],
)
def test_a_broken_or_busy_device_is_an_infrastructure_error(message: str) -> None:
    from workers.exceptions import BROKEN  # noqa: PLC0415

    assert BROKEN.search(message)


@pytest.mark.slow
@torch_needed
@pytest.mark.parametrize(("dtype", "takes"), [("float32", False), ("bfloat16", True)])
def test_float32_attention_does_not_use_a_kernel_with_tf32_products(
    monkeypatch: pytest.MonkeyPatch, dtype: str, *, takes: bool
) -> None:
    import torch  # noqa: PLC0415

    from workers.torch import flash  # noqa: PLC0415

    monkeypatch.setattr(torch.backends.cuda, "can_use_efficient_attention", lambda _asked: True)
    query = SimpleNamespace(device=SimpleNamespace(type="cuda"), dtype=getattr(torch, dtype))
    attention = SimpleNamespace(query=query, attn_mask=None)
    assert flash.takes(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION, attention) is takes


def jax_that_held(share: float) -> SimpleNamespace:
    return SimpleNamespace(
        devices=lambda: [SimpleNamespace(memory_stats=lambda: {"peak_bytes_in_use": share})]
    )


@pytest.mark.slow
@torch_needed
@pytest.mark.parametrize(
    ("platform", "free", "held", "others"),
    [
        ("cuda", 0.1, 0.8, False),
        ("cuda", 0.1, 0.1, True),
        ("cuda", 0.9, 0.0, False),
        ("cuda", None, 0.0, True),
        ("cpu", 0.1, 0.1, False),
    ],
)
def test_other_processes_that_hold_most_of_a_gpu_are_detected(
    monkeypatch: pytest.MonkeyPatch, platform: str, free: float | None, held: float, *, others: bool
) -> None:
    from workers import exceptions  # noqa: PLC0415

    def memory() -> tuple[float, float]:
        if free is None:
            msg = "CUDA error: out of memory"
            raise RuntimeError(msg)
        return free, 1.0

    monkeypatch.setenv(gpus.PLATFORMS, platform)
    monkeypatch.setitem(sys.modules, "jax", jax_that_held(held))
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    monkeypatch.setattr("torch.cuda.mem_get_info", memory)
    assert exceptions._others_hold_the_gpu() == others  # noqa: SLF001


@pytest.mark.slow
@torch_needed
def test_what_gloo_cannot_do_with_cuda_tensors_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workers.torch import collectives  # noqa: PLC0415

    monkeypatch.setattr("torch.distributed.get_backend", lambda _group: "gloo")
    on_a_gpu, spec = (
        SimpleNamespace(is_cuda=True),
        Collective(operation="permute", mesh=(2,), axis=0, width=4),
    )
    with pytest.raises(NotImplementedError, match=r"permute \(single\) over gloo is not supported"):
        collectives._dispatch([on_a_gpu], spec, None)  # type: ignore[list-item, arg-type]  # noqa: SLF001


@pytest.mark.slow
@torch_needed
def test_faults_of_gpus_reach_the_smallest_generated_mesh_given_enough_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workers.faults import PlantedFault, cuda  # noqa: PLC0415

    smallest = min((case_at(0, index) for index in range(30)), key=lambda case: case.world_size)
    faults = [fault for fault in vars(cuda).values() if isinstance(fault, PlantedFault)]
    assert len(faults) == 3
    for fault in faults:
        for there in (fault.least_gpus - 1, fault.least_gpus):
            monkeypatch.setattr(cuda, "gpu_count", lambda there=there: there)
            assert fault.reaches(smallest) == (there == fault.least_gpus), fault.name


RECORD_QUERIES = """
import os, torch
from workers import zygote

recorded, real = [], torch.cuda.is_available
torch.cuda.is_available = lambda: recorded.append(os.environ.get(zygote.BY_NVML)) or real()
zygote.preloaded(["torch._dynamo", "torch_xla"])
assert torch._inductor.runtime.benchmarking, "the module that asks is among what torch_xla imports"
print(set(recorded), zygote.BY_NVML in os.environ)
"""


@pytest.mark.slow
@pytest.mark.xla
def test_torch_xla_s_imports_query_gpus_by_nvml_so_that_forks_can_use_cuda() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    done = subprocess.run([sys.executable, "-c", RECORD_QUERIES], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'1'} False", done.stderr
