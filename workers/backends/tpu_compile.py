"""`torch.compile` on torch_tpu: around DDP, and around every operator of a program on one rank.

The device is XLA:CPU, or a GPU by JAX's plugin, behind our PJRT plugin (`workers.tpu`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.judge.events import Events
from workers import sides
from workers.backends import torch_compile
from workers.torch import compiled, process_groups
from workers.tpu import devices, limits, start
from workers.training.refusals import partial_sums

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = "torch.compile of TorchTPU on XLA:CPU"
SIDE = "xla"
FRAMEWORK = "torch_tpu"
PROFILE = replace(sides.XLA, extras="torch_tpu")
PRELOAD = start.PRELOAD
processes = torch_compile.processes
environment = devices.environment


@limits.within
def unsupported(case: Case) -> str | None:
    """What DDP refuses; a program must be on one rank."""
    if not case.model.is_program:
        return torch_compile.unsupported(case)
    if case.world_size > 1:
        return "a compiled program runs on one device; the layout has more"
    return partial_sums(case)


@contextmanager
def _joined(case: Case, rank: int, rendezvous: str, kind: process_groups.Devices) -> Iterator["Session"]:
    if not case.model.is_program:
        with torch_compile.session(case, rank, rendezvous, kind) as compiled_wrapper:
            yield compiled_wrapper
        return
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        yield replace(
            process_groups.local_session(member, partial(_place, member)),
            observe=lambda *_: nullcontext(),
            events=_events,
        )


def _place(member: process_groups.Member, module: "nn.Module") -> "nn.Module":
    """Compiles the operators one by one: what is between them reports where a run is."""
    placed = module.to(member.device)
    for operator in placed.children():
        operator.compile(dynamic=False)
    return placed


def _events() -> Events:
    """The breaks; an operator that TorchDynamo does not capture is one that `torch.compile` lacks."""
    try:
        return Events(breaks=compiled.breaks())
    except RuntimeError as error:
        raise NotImplementedError(str(error)) from error


session = start.sessions(_joined)
