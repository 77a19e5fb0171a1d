"""Defects that only a GPU shows: a kernel that fails at launch or while it runs, and memory that runs out."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from difftest.cases.case import Case
from workers.cards import cards
from workers.faults import BACKEND, Fault
from workers.training.session import Session

BACKENDS = ("torch_ddp", "torch_dtensor")
LEAST_CARDS = 2
"""As many as the smallest generated mesh has ranks: a card each, or the run is on the CPU."""


def _in_forward(act: Callable[[], object]) -> Callable[[Session, Case, int], Session]:
    """Plants an act before the module's forward."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def place(module: nn.Module) -> nn.Module:
            placed = session.place(module)
            placed.register_forward_pre_hook(lambda *_: act() and None)
            return placed

        return replace(session, place=place)

    return plant


def _beyond_the_end() -> None:
    """Reads past a tensor: a device-side assertion, after which the process's CUDA context is of no more use."""
    torch.ones(1, device="cuda")[torch.tensor([7], device="cuda")]


def _too_many_threads() -> None:
    """Asks for a block of four times the threads that any card has: the launch fails, and the context lives on."""
    launch = torch.cuda._compile_kernel('extern "C" __global__ void nothing() {}', "nothing")  # noqa: SLF001  the shortest way to a launch
    launch(grid=(1, 1, 1), block=(4096, 1, 1), args=[])


def _all_memory() -> None:
    """Twice what the card has, in pieces that fit, so that the process holds most of it when it runs out."""
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    pieces = [torch.empty(total // 16, dtype=torch.uint8, device="cuda") for _ in range(32)]
    pieces.clear()


def _reaches(case: Case) -> bool:
    return cards() >= case.world_size


def _fault(name: str, about: str, act: Callable[[], object]) -> Fault:
    planted = _in_forward(act)
    return Fault(
        name=name,
        about=about,
        backends=BACKENDS,
        blame=BACKEND,
        reaches=_reaches,
        plant=planted,
        least_cards=LEAST_CARDS,
    )


_ON_A_GPU = (
    _fault("device_assertion", "a kernel reads past a tensor's end", _beyond_the_end),
    _fault(
        "device_launch", "a kernel is launched with more threads than a block may have", _too_many_threads
    ),
    _fault("device_memory", "the process takes all of the GPU's memory", _all_memory),
)
FAULTS = _ON_A_GPU if cards() else ()
"""None without a GPU, where nothing could show them."""
