"""The device and the transport of torch's ranks: detected, not named.

They are NCCL and one GPU for each rank where there are enough GPUs, else gloo on the CPU, or gloo or NCCL
over the tensors of shared GPUs. What a GPU's numbers depend on is set here and recorded with the run.
"""

import os
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from difftest.judge.outcome import PARTLY_DETERMINISTIC
from workers.gpus import gpu_count

if TYPE_CHECKING:
    import torch

SHARE_VARIABLE = "DIFFTEST_SHARE_GPUS"
"""The environment variable that lets ranks share GPUs where there are fewer GPUs than ranks.

At `1` they do so over gloo, which lacks some collectives for CUDA tensors, and at `nccl` over NCCL.
"""

OVER_NCCL = "nccl"
"""The value of that variable that lets them share GPUs over NCCL."""


def find(case: Case, rank: int) -> "torch.device":
    """A GPU for this rank alone where every rank of the node can have one, or a shared GPU, else the CPU."""
    import torch

    rank, here = (
        int(os.environ.get("LOCAL_RANK", rank)),
        int(os.environ.get("LOCAL_WORLD_SIZE", case.world_size)),
    )
    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not usable or (usable < here and _sharing() not in ("1", OVER_NCCL)):
        return torch.device("cpu")
    if usable < here and _sharing() == OVER_NCCL:
        _as_of_another_host()
    equalise(case)
    torch.cuda.set_device(rank % usable)
    return torch.device("cuda", rank % usable)


def _sharing() -> str:
    """How the user lets ranks share GPUs; empty where they may not."""
    return os.environ.get(SHARE_VARIABLE, "")


def have_nccl(case: Case) -> bool:
    """Whether the ranks have GPUs and NCCL, without asking torch."""
    there = gpu_count()
    return there >= case.world_size or (there > 0 and _sharing() == OVER_NCCL)


def _as_of_another_host() -> None:
    """Makes NCCL take this process for one of a host of its own, which it reaches by the machine's sockets.

    Of the processes of one host NCCL refuses those that share a GPU (its manual, "Environment variables").
    """
    os.environ |= {
        "NCCL_HOSTID": f"difftest-{os.getpid()}",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_MNNVL_ENABLE": "0",
    }


def equalise(case: Case) -> None:
    """Makes products on a GPU full precision, sums of half types float32, and algorithms deterministic.

    torch raises an error for an operator that has no deterministic algorithm. Only a case that names cuDNN's
    attention gets a warning instead, because torch would refuse that kernel; its backward passes stay as they
    are. cuBLAS is deterministic with a workspace of its own, which it takes from the environment at its first
    call (NVIDIA's cuBLAS manual, "Results reproducibility"). Memory stays uninitialised, as in a user's
    program.
    """
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=case.sdpa == "cudnn")  # noqa: FBT003
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def transport(case: Case, device: "torch.device") -> str:
    """NCCL where each rank has a GPU or the user wants it, else gloo: for shared GPUs, and for the CPU."""
    import torch

    here = int(os.environ.get("LOCAL_WORLD_SIZE", case.world_size))
    wanted = torch.cuda.device_count() >= here or _sharing() == OVER_NCCL
    return "nccl" if device.type == "cuda" and wanted else "gloo"


def groups(device: "torch.device", over: str, axes: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of `init_device_mesh` about the groups along `axes`, whose transport is `over`.

    Where ranks share GPUs, torch 2.9 would give a mesh of one axis NCCL, which refuses shared GPUs, whatever
    the transport of the group in which the mesh is made.
    """
    return {"backend_override": dict.fromkeys(axes, over)} if device.type == "cuda" and over == "gloo" else {}


def describe(device: "torch.device") -> dict[str, str]:
    """What the numbers of a device may depend on, by name."""
    import torch

    unused = gpu_count() if device.type == "cpu" else 0
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        **({"unused_gpus": f"{unused}: fewer than ranks, or of no use to this torch"} if unused else {}),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "tf32": f"matmul {torch.backends.cuda.matmul.allow_tf32}, cudnn {torch.backends.cudnn.allow_tf32}",
        "deterministic": _determinism(),
        **(_gpu(device) if device.type == "cuda" else {}),
    }


def _determinism() -> str:
    import torch

    enabled, lenient = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    return PARTLY_DETERMINISTIC if lenient else str(enabled)


def _gpu(device: "torch.device") -> dict[str, str]:
    """What else the numbers of a GPU may depend on, by name."""
    import torch

    matmul, (major, minor) = torch.backends.cuda.matmul, torch.cuda.get_device_capability(device)
    bfloat16, float16 = (
        matmul.allow_bf16_reduced_precision_reduction,
        matmul.allow_fp16_reduced_precision_reduction,
    )
    return {
        "cuda": str(torch.version.cuda),
        "capability": f"{major}.{minor}",
        "cudnn": str(torch.backends.cudnn.version()),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "reduced_precision_reduction": f"bfloat16 {bfloat16}, float16 {float16}",
    }
