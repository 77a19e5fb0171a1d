"""On a real GPU.

Torch's backends over NCCL and on shared GPUs, kernels of attention, failures, and XLA on that GPU.
"""

import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from flash_cases import flash
from installed_packages import needs
from real_runs import agrees

from difftest.cases.case import Case
from difftest.cases.twins import twin
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.outcome import Failure, Symptom, Trace
from generators.cases import case_at
from workers.backends import torch_eager, torchax
from workers.faults import VARIABLE
from workers.gpus import VISIBLE, gpu_count
from workers.isolate import sandbox
from workers.torch.devices import OVER_NCCL, SHARE_VARIABLE
from workers.xla import plugin

pytestmark = [pytest.mark.slow, pytest.mark.cuda]
a_gpu = pytest.mark.skipif(not gpu_count(), reason="needs a GPU")
torchax_on_a_gpu = pytest.mark.skipif(
    not gpu_count()
    or not all(map(importlib.util.find_spec, ("torchax", "flax")))
    or not any(map(importlib.util.find_spec, torchax.PLUGINS)),
    reason="needs a GPU, torchax and JAX's plugin: pip install -e '.[torchax]' 'jax[cuda12]==0.7.1'",
)
CASES_A_BACKEND = 5
HALF, SINGLE = flash(("dp", 1), dtype="float16", causal=True), flash(("dp", 1), causal=True)
MASKED = flash(("dp", 1), dtype="float16", segments=True)
DEADLINE_SECONDS = 120.0
MOST_RANKS = 8
RANKS = sorted({1, max(1, min(gpu_count(), MOST_RANKS))})
"""One rank, and as many ranks as there are GPUs."""


def supported(backend: str, ranks: int) -> Iterator[Case]:
    """Generated float32 cases of so many ranks that the backend supports.

    Half types have known faults; campaigns compare them.
    """
    drawn = (case_at(0, index, max_world_size=ranks) for index in itertools.count())
    takes = plugins.load("workers.backends", backend).unsupported
    return (
        case for case in drawn if case.world_size == ranks and case.dtype == "float32" and takes(case) is None
    )


def right_without(backend: str, ranks: int) -> Iterator[Case]:
    """Those that the backend computes correctly on the CPU: its errors there are no fault of the GPU."""
    drawn = (case for case in supported(backend, ranks) if case.sdpa != "cudnn")  # which is not deterministic
    no_gpus = {VISIBLE: ""}
    return (
        c
        for c in drawn
        if agrees(
            c, backend, sandbox.run(c, backend, deadline=DEADLINE_SECONDS, options=no_gpus), DEADLINE_SECONDS
        )
    )


@a_gpu
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor", "torch_fsdp", "torch_tp"])
def test_generated_cases_agree_with_the_oracle_with_a_gpu_a_rank(backend: str, ranks: int) -> None:
    for case in itertools.islice(right_without(backend, ranks), CASES_A_BACKEND):
        outcome = sandbox.run(case, backend, deadline=DEADLINE_SECONDS)
        assert agrees(case, backend, outcome, DEADLINE_SECONDS), case.id
        assert isinstance(outcome, Trace)
        assert outcome.environment["device"] != "cpu"
        assert outcome.environment["deterministic"] == "True"
        assert outcome.environment["transport"] == "nccl"


@a_gpu
def test_two_runs_on_a_gpu_have_the_same_bits() -> None:
    for case in (*itertools.islice(supported("torch_ddp", 1), CASES_A_BACKEND), HALF, SINGLE, MASKED):
        one, other = (sandbox.run(case, "torch_ddp", deadline=DEADLINE_SECONDS) for _ in range(2))
        assert isinstance(one, Trace)
        assert isinstance(other, Trace)
        assert same_bits(one, other)


@a_gpu
def test_ranks_share_a_gpu_over_gloo() -> None:
    case = next(supported("torch_ddp", 2))
    outcome = sandbox.run(case, "torch_ddp", deadline=DEADLINE_SECONDS, options={SHARE_VARIABLE: "1"})
    assert agrees(case, "torch_ddp", outcome, DEADLINE_SECONDS)
    assert isinstance(outcome, Trace)
    assert outcome.environment["device"] != "cpu"
    assert outcome.environment["transport"] == ("gloo" if gpu_count() < case.world_size else "nccl")


@a_gpu
@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor", "torch_fsdp", "torch_tp"])
def test_ranks_share_a_gpu_over_nccl(backend: str) -> None:
    for case in itertools.islice(right_without(backend, 2), CASES_A_BACKEND):
        outcome = sandbox.run(case, backend, deadline=DEADLINE_SECONDS, options={SHARE_VARIABLE: OVER_NCCL})
        assert agrees(case, backend, outcome, DEADLINE_SECONDS), case.id
        assert isinstance(outcome, Trace)
        assert outcome.environment["device"] != "cpu"
        assert outcome.environment["transport"] == "nccl"


@a_gpu
@pytest.mark.parametrize("path", ["operators", "data_parallel"])
def test_torch_itself_computes_twins_in_float64_on_a_gpu(path: str) -> None:
    case = twin(case_at(0, 0, paths=(path,)))
    options = {torch_eager.GPU_VARIABLE: "1"}
    outcome = sandbox.run(case, "torch_eager", deadline=DEADLINE_SECONDS, options=options)
    assert agrees(case, "torch_eager", outcome, DEADLINE_SECONDS), case.id
    assert isinstance(outcome, Trace)
    assert outcome.environment["device"] != "cpu"


@a_gpu
@pytest.mark.parametrize(
    ("case", "used"),
    [
        (HALF, "flash_attention"),
        (msgspec.structs.replace(HALF, sdpa="cudnn"), "cudnn_attention"),
        (msgspec.structs.replace(HALF, sdpa="efficient"), "efficient_attention"),
        (msgspec.structs.replace(HALF, sdpa="math"), "math"),
        (SINGLE, "math"),
        (msgspec.structs.replace(SINGLE, sdpa="efficient"), "math"),
        (MASKED, "efficient_attention"),
    ],
)
def test_the_kernel_that_a_case_names_is_used_where_the_gpu_has_it(case: Case, used: str) -> None:
    outcome = sandbox.run(case, "torch_ddp", deadline=DEADLINE_SECONDS)
    assert isinstance(outcome, Trace)
    assert outcome.environment["sdpa"] == used
    assert agrees(case, "torch_ddp", outcome, DEADLINE_SECONDS)


@a_gpu
def test_dtensor_uses_math_for_masked_attention_and_reports_kernels_that_it_lacks() -> None:
    outcome = sandbox.run(MASKED, "torch_dtensor", deadline=DEADLINE_SECONDS)
    assert isinstance(outcome, Trace)
    assert outcome.environment["sdpa"] == "math"
    lacking = sandbox.run(
        msgspec.structs.replace(MASKED, sdpa="cudnn"), "torch_dtensor", deadline=DEADLINE_SECONDS
    )
    if isinstance(lacking, Failure):
        # torch 2.11 raises a RuntimeError that does not say that a rule is missing.
        assert lacking.symptom in (Symptom.CAPABILITY, Symptom.EXCEPTION)
    else:  # torch 2.15 has a rule
        assert lacking.environment["sdpa"] == "cudnn_attention"


@a_gpu
def test_a_failing_kernel_ends_its_own_run_and_no_other() -> None:
    case = next(supported("torch_ddp", 1))
    failure = sandbox.run(
        case, "torch_ddp", deadline=DEADLINE_SECONDS, options={VARIABLE: "device_assertion"}
    )
    assert isinstance(failure, Failure)
    assert failure.symptom in (Symptom.EXCEPTION, Symptom.CRASH)
    assert isinstance(sandbox.run(case, "torch_ddp", deadline=DEADLINE_SECONDS), Trace)


@a_gpu
def test_a_launch_refused_by_the_gpu_is_an_outcome_of_its_run() -> None:
    case = next(supported("torch_ddp", 1))
    failure = sandbox.run(case, "torch_ddp", deadline=DEADLINE_SECONDS, options={VARIABLE: "device_launch"})
    assert isinstance(failure, Failure)
    assert (failure.symptom, failure.kind, failure.frame) == (Symptom.EXCEPTION, "RuntimeError", "")


@a_gpu
def test_a_run_that_exhausts_memory_fails_by_an_exception() -> None:
    failure = sandbox.run(
        next(supported("torch_ddp", 1)),
        "torch_ddp",
        deadline=DEADLINE_SECONDS,
        options={VARIABLE: "device_memory"},
    )
    assert isinstance(failure, Failure)
    assert (failure.symptom, failure.kind) == (Symptom.EXCEPTION, "OutOfMemoryError")


HOLD = """
import torch
held = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.9), dtype=torch.uint8, device="cuda")
print(1, flush=True)
input()
"""


@a_gpu
def test_memory_held_by_other_processes_is_an_infrastructure_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"1\n"
        try:
            with pytest.raises(InfrastructureError, match="others hold the GPU's memory"):
                sandbox.run(
                    next(supported("torch_ddp", 1)),
                    "torch_ddp",
                    deadline=DEADLINE_SECONDS,
                    options={VARIABLE: "device_memory"},
                )
        finally:
            other.kill()


@torchax_on_a_gpu
@pytest.mark.parametrize("ranks", RANKS)
def test_xla_agrees_with_the_oracle_on_the_same_gpus(ranks: int) -> None:
    for case in itertools.islice(right_without("torchax", ranks), CASES_A_BACKEND):
        outcome = sandbox.run(case, "torchax", deadline=DEADLINE_SECONDS)
        assert agrees(case, "torchax", outcome, DEADLINE_SECONDS), case.id
        assert isinstance(outcome, Trace)
        assert outcome.environment["device"] == "gpu"


@a_gpu
def test_torch_xla_drives_a_gpu_through_jax_s_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    try:
        plugin.library()
    except UsageError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PJRT_DEVICE", plugin.DEVICE)
    case = next(supported("xla_spmd", 1))
    outcome = sandbox.run(case, "xla_spmd", deadline=DEADLINE_SECONDS)
    assert isinstance(outcome, Trace)
    assert outcome.environment["device"] == plugin.DEVICE
    assert agrees(case, "xla_spmd", outcome, DEADLINE_SECONDS)
