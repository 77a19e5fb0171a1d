"""The devices of torch_tpu's ranks: one for each process, which XLA:CPU computes.

This has the functions of `workers.torch.devices`, for ranks whose devices are not torch's own.
"""

import os
from typing import TYPE_CHECKING, Any

from difftest.cases import flags
from difftest.cases.case import Case
from difftest.ground import installed
from workers.xla import plugin
from workers.xla.devices import DETERMINISTIC

if TYPE_CHECKING:
    import torch

STAND_IN, ON_CARDS = "TorchTPU on XLA:CPU", "TorchTPU on XLA:CUDA"
"""What every result must be called: the device, the compiler and the arithmetic are not a TPU's."""

KEEPS_NAN = "--xla_cpu_enable_fast_min_max=false"
"""The flag of XLA's that runs here have beside those of every run.

By default XLA:CPU drops NaN in max, min, clamp and pooling, which a TPU does not: a fault of the stand-in
would hide those of torch_tpu.
"""

TRANSPORT = "tpu_dist"


def environment(case: Case | None = None) -> dict[str, str]:
    """The variables of a run.

    libtpu must not ask a cloud's metadata server, which takes minutes where there is none. Every rank
    compiles for itself: the second tier of torch_tpu's cache gives a rank what another has compiled.
    """
    on_cards = plugin.chosen()
    usual = flags.for_case(case, on_cpu=not on_cards) if case else flags.SAME_PRECISION
    kept = DETERMINISTIC if on_cards else KEEPS_NAN
    return {
        "TPU_SKIP_MDS_QUERY": "1",
        "TORCH_TPU_TIER2_COMPILATION_CACHE": "disabled",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {usual} {kept}".strip(),
    }


def find(_case: Case, _rank: int) -> "torch.device":
    """The device of this process, which has only one. Products are at their most precise."""
    import torch

    torch.set_float32_matmul_precision("highest")
    return torch.device("tpu", 0)


def transport(_case: Case, _device: "torch.device") -> str:
    """The name of torch_tpu's process group."""
    return TRANSPORT


def groups(_device: "torch.device", _over: str, _axes: tuple[str, ...]) -> dict[str, Any]:
    """No arguments of `init_device_mesh`: every group is of the default kind."""
    return {}


def describe(_device: "torch.device") -> dict[str, str]:
    """What the numbers may depend on, by name."""
    import torch

    return {
        "device": ON_CARDS if plugin.chosen() else STAND_IN,
        **installed.versions("torch_tpu", plugin.package() if plugin.chosen() else "xla-cpu-pjrt"),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "denormals": "as the device has them",
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
