"""torch itself: eager, on the CPU, in float64, with every feature as users call it, and nothing around it.

It runs the twins of cases (`difftest.cases.twins`). The oracle has schedulers, averages and most optimizers
by their formulas. Where this backend differs from it, torch's own are wrong on every device. It is one rank
of a process group, as checkpoints need it. On request it runs on a GPU, programs too: what then differs from
the oracle are the GPU's kernels.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layout import Placements, replicated
from difftest.cases.twins import no_twin
from difftest.judge.outcome import Sharded
from workers import sides
from workers.torch import devices, process_groups
from workers.training.pieces import sharded, values

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from workers.training.session import Session

TITLE = "torch itself, eager in float64"
SIDE = sides.DEFINITION
FRAMEWORK = ""
PROFILE = sides.REFERENCES
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


GPU_VARIABLE = "DIFFTEST_EAGER_ON_GPU"
"""The environment variable that, at 1, lets it run on a GPU where there is one."""


def on_gpu() -> bool:
    """Whether it runs on a GPU where there is one."""
    return os.environ.get(GPU_VARIABLE, "") == "1"


def unsupported(case: Case) -> str | None:
    """Why a case has nothing of torch's training, or is no twin."""
    if case.model.own or (case.model.is_program and not on_gpu()):
        return "no features of training: it is a program, or a module of the user's"
    return no_twin(case)


@dataclass(frozen=True, slots=True)
class _Host:
    """The CPU, on machines with GPUs too; else as `workers.torch.devices`."""

    transport = staticmethod(devices.transport)
    groups = staticmethod(devices.groups)
    describe = staticmethod(devices.describe)

    def find(self, case: Case, rank: int) -> "torch.device":
        import torch

        return devices.find(case, rank) if on_gpu() else torch.device("cpu")


@contextmanager
def session(case: Case, rank: int, rendezvous: str) -> Iterator["Session"]:
    """Places nothing: the module stays as it was made, in float64, on one device."""
    import torch

    from workers.training.session import Session

    alone = replicated(case.layout.mesh)

    def read(tensor: "Tensor", _placements: Placements) -> Sharded:
        return sharded(tensor, alone, {0: values(tensor.detach().cpu()).copy()})

    with process_groups.joined(case, rank, rendezvous, kind=_Host()) as member:
        on_cuda = member.device.type == "cuda"
        facts = devices.describe(member.device) if on_cuda else {"device": "cpu"}
        yield Session(
            dtype=torch.float64,
            wide=True,
            place=lambda module: module.to(member.device),
            feed=lambda tensor: tensor.to(member.device),
            read=read,
            device=member.device.type,
            environment={"torch": torch.__version__, **facts},
        )
