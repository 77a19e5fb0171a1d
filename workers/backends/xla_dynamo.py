"""XLA SPMD under `torch.compile(backend="openxla")`: TorchDynamo captures what XLA compiles."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.layout import Placements
from difftest.judge.outcome import Sharded
from workers import sides
from workers.backends import xla_compile, xla_spmd
from workers.torch import compiled
from workers.xla import flash, sharding, spmd

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.session import Session

TITLE = 'torch.compile over "openxla"'
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = replace(sides.TORCH_XLA, only_named=True)
PRELOAD = spmd.PRELOAD
processes = spmd.processes
environment = spmd.environment
unsupported = xla_compile.unsupported


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Compiles the annotated module; the loss and the update are lazy, as without `torch.compile`."""
    world = sharding.join(case)
    operators, kernels = flash.operators(world)
    lazy = spmd.session(world, partial(_compiled, world), operators=operators, further_graphs=None)
    yield replace(
        lazy,
        environment={**lazy.environment, **kernels},
        read=partial(_read, lazy),
        events=lambda: structs.replace(lazy.events(), breaks=compiled.breaks()),
    )


def _read(lazy: "Session", tensor: "Tensor", placements: Placements) -> Sharded:
    """Waits first: TorchDynamo's graphs run in the background, and results on their way cannot be read."""
    from torch_xla.core import xla_model

    xla_model.wait_device_ops()
    return lazy.read(tensor, placements)


def _compiled(world: sharding.World, module: "nn.Module") -> "nn.Module":
    import torch

    placed: nn.Module = torch.compile(xla_spmd.placed(world, module), backend="openxla")  # type: ignore[assignment]
    return placed
