"""How an SPMD program starts on XLA: its first acts, in the order that the case gives them.

Upstream recommends `use_spmd()` before anything else and takes every other order too, with a warning:
existing tensors are "replicated across the devices". torch_xla 2.9.0 then ends in a segmentation fault at the
first tensor without an annotation (pytorch/xla#9735). The service must find that, so nothing here reorders
what a case says.
"""

from math import prod
from typing import Any

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import Placements, Shard
from difftest.cases.options import Act, Start

SPARE_AXIS = "spare"
MOST_SEED = 2**31

ASYNCHRONOUS = "PJRT_CPU_ASYNC_CLIENT"
"""torch_xla's variable for an asynchronous client on the CPU.

Other devices' clients are always asynchronous.
"""


def act(name: Act, case: Case) -> Any:  # noqa: ANN401  a mesh of torch_xla's, a tensor, or nothing
    """Performs one of the acts by which a user's program begins; the result is the mesh, a tensor or None."""
    import torch
    import torch_xla
    from torch_xla import runtime

    match name:
        case "spmd":  # once a process, however many cases it runs
            return None if runtime.is_spmd() else runtime.use_spmd()
        case "mesh":
            return mesh(case)
        case "device":
            return torch.ones(1).to(torch_xla.device())
        case "seed":
            return torch_xla.manual_seed(case.seed % MOST_SEED)


def mesh(case: Case) -> Any:  # noqa: ANN401  torch_xla has no types
    """The case's mesh as torch_xla takes it, over all devices.

    It is always a plain mesh. `HybridMesh` (slices x chips) refuses every CPU: it asserts a TPU's name and
    coordinates, and takes a shape over slices only from devices that report their slice. With all of these
    made up it puts the devices in the order that a plain mesh has.
    """
    from torch_xla.distributed import spmd

    shape, names = axes(case)
    return spmd.Mesh(np.arange(prod(shape)), shape, names)


def axes(case: Case) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The sizes and names of the mesh's axes.

    Where there are more devices than ranks, one more innermost axis holds copies.
    """
    ours, copies = case.layout.mesh, spare(case)
    more = (copies > 1) * 1
    return (*ours.shape, *(copies,) * more), (*ours.names, *(SPARE_AXIS,) * more)


def spare(case: Case) -> int:
    """The number of devices per rank. `ValueError` when the case's ranks do not divide the devices."""
    from torch_xla import runtime

    devices = int(runtime.global_runtime_device_count())
    if devices % case.world_size:
        kind = runtime.device_type()
        ranks = f"the mesh {case.layout.mesh} has {case.world_size} ranks"
        msg = f"{ranks}; they do not divide the {devices} {kind} devices"
        raise ValueError(msg)
    return devices // case.world_size


def annotates(start: Start, placements: Placements) -> bool:
    """Whether a program annotates a parameter with these placements."""
    return start.replicated == "marked" or any(isinstance(placement, Shard) for placement in placements)
