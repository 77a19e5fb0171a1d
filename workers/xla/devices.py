"""The devices that XLA runs on: their kind, their number and their precision.

What a run's numbers depend on is set here, the same on both sides, and recorded.
"""

import os
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from difftest.cases import flags
from difftest.cases.case import Case
from difftest.ground import installed
from workers.torch import process_groups
from workers.xla import plugin, start

THREADS_AT_LEAST = 16
"""With fewer threads than devices, XLA:CPU's collectives starve and abort."""

TPU_DEVICE_FILES = ("accel[0-9]*", "vfio/[0-9]*")

DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
"""Makes XLA on a GPU deterministic (openxla.org/xla/determinism).

Otherwise XLA measures which kernel is fastest, which may be another kernel in another process, and adds in an
order that changes.
"""


MATMUL_PRECISION = "DIFFTEST_MATMUL_PRECISION"
"""Names a lower precision of products (`default`, `high`) for a whole run.

Without it they are at their most precise.
"""


def kind() -> str:
    """The PJRT device to run on: the one that the user named, else a TPU where there is one, else the CPU."""
    return os.environ.get("PJRT_DEVICE") or ("TPU" if chips() and find_spec("libtpu") else "CPU")


def chips() -> int:
    """How many TPU chips the driver shows on this machine."""
    return sum(1 for pattern in TPU_DEVICE_FILES for _ in Path("/dev").glob(pattern))


def fitting(case: Case) -> str:
    """The PJRT device of a case under SPMD.

    It is `kind()`, or the CPU where the ranks do not divide the TPU chips or GPUs evenly. `UsageError` where
    the user names CUDA and there is no plugin for it.
    """
    chosen = kind()
    if chosen == plugin.DEVICE:
        return plugin.fitting(case)
    return "CPU" if chosen == "TPU" and chips() % case.world_size else chosen


def _preload() -> tuple[str, ...]:
    """Modules that import without touching a device.

    jax is among them because `mark_sharding` looks for it at its first call, which takes two seconds. jax
    prepares the environment for a TPU as it is imported, so on a TPU torch_xla imports it when it needs it.
    """
    lazily = (
        "torch_xla.runtime",
        "torch_xla.distributed.spmd",
        "torch_xla.debug.metrics",
    )
    jax = ("jax",) if kind() == "CPU" and find_spec("jax") else ()
    return (*process_groups.PRELOAD, "torch_xla", *lazily, *jax)


PRELOAD = _preload()

SOUGHT = ("torchax.tensor", "torchax.interop", "torchax.ops.mappings")
"""What `mark_sharding` imports at its first call besides jax, where it is installed (torch_xla 2.9.0)."""


def warm() -> None:
    """Imports `SOUGHT` before the ranks are forked: 0.2 s of processor time that each of them would take.

    They are not in `PRELOAD`, since no backend of torch_xla needs them. Without flax torchax does not import.
    """
    if "jax" in PRELOAD and find_spec("torchax"):
        with suppress(ImportError):
            for name in SOUGHT:
                import_module(name)


def environment(case: Case, at: str = "") -> dict[str, str]:
    """The variables of a run: the device kind, and on the CPU one virtual device per rank.

    `at` is the device kind, by default `fitting(case)`.

    No side keeps more precision than the dtype between operators. `UsageError` as for `fitting`.
    """
    at = at or fitting(case)
    flags_text = f"{os.environ.get('XLA_FLAGS', '')} {flags.for_case(case, on_cpu=at == 'CPU')}".strip()
    if at != "CPU":
        return {
            "PJRT_DEVICE": at,
            "XLA_FLAGS": f"{flags_text} {DETERMINISTIC}" if at == plugin.DEVICE else flags_text,
        }
    threads = max(THREADS_AT_LEAST, case.world_size)
    asynchronous = {} if case.start.asynchronous else {start.ASYNCHRONOUS: "false"}
    return {
        "PJRT_DEVICE": at,
        "CPU_NUM_DEVICES": str(case.world_size),
        "XLA_THREAD_POOL_SIZE": str(threads),
        "XLA_FLAGS": flags_text,
        **asynchronous,
    }


def multiply_precisely() -> None:
    """Sets the precision of matrix products; on the CPU all precisions are the same."""
    import torch_xla

    precision = os.environ.get(MATMUL_PRECISION, "highest")
    # What torch_xla.backends calls, without its warning.
    torch_xla._XLAC._xla_set_mat_mul_precision(precision)  # noqa: SLF001


def describe() -> dict[str, str]:
    """The device and what its numbers depend on, by name, once the runtime has started."""
    import torch
    import torch_xla
    from torch_xla import runtime

    return {
        "device": str(runtime.device_type()),
        "devices": str(runtime.global_runtime_device_count()),
        "torch": torch.__version__,
        "torch_xla": torch_xla.__version__,
        **installed.versions("jaxlib", "libtpu"),
        **unused_chips(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "denormals": "flushed" if kind() == "CPU" else "as the device has them",
        "matmul_precision": str(torch_xla._XLAC._xla_get_mat_mul_precision()),  # noqa: SLF001
    }


def unused_chips() -> dict[str, str]:
    """The number of TPU chips that a run on the CPU left unused, with possible reasons; empty without any."""
    there = chips() if kind() == "CPU" else 0
    return (
        {"unused_chips": f"{there}: not shared out evenly by the ranks, without libtpu, or not asked for"}
        if there
        else {}
    )
