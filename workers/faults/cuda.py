"""Planted faults that only a GPU shows: kernels that fail, and memory that runs out.

One kernel fails at its launch, another while it runs.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from difftest.cases.case import Case
from workers.faults import BACKEND, planted
from workers.gpus import gpu_count
from workers.training.session import Session

BACKENDS = ("torch_ddp", "torch_dtensor")
LEAST_GPUS = 2
"""As many as the smallest generated mesh has ranks: each rank has a GPU, or the run is on the CPU."""


def _before_forward(session: Session, act: Callable[[], object]) -> Session:
    """The session in which `act` precedes the module's forward."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        placed.register_forward_pre_hook(lambda *_: act() and None)
        return placed

    return replace(session, place=place)


def _has_gpus(case: Case) -> bool:
    return gpu_count() >= case.world_size


@planted(
    about="a kernel reads past a tensor's end",
    backends=BACKENDS,
    blame=BACKEND,
    reaches=_has_gpus,
    least_gpus=LEAST_GPUS,
)
def device_assertion(session: Session, _case: Case, _rank: int) -> Session:
    """A device-side assertion fails, after which the process's CUDA context cannot be used."""

    def read_past_the_end() -> None:
        torch.ones(1, device="cuda")[torch.tensor([7], device="cuda")]

    return _before_forward(session, read_past_the_end)


@planted(
    about="a kernel is launched with more threads than a block may have",
    backends=BACKENDS,
    blame=BACKEND,
    reaches=_has_gpus,
    least_gpus=LEAST_GPUS,
)
def device_launch(session: Session, _case: Case, _rank: int) -> Session:
    """Requests a block of four times the threads that any GPU allows.

    The launch fails, and the CUDA context stays usable.
    """

    def launch_too_many_threads() -> None:
        source = 'extern "C" __global__ void nothing() {}'
        launch = torch.cuda._compile_kernel(source, "nothing")  # noqa: SLF001  the shortest way to a launch
        launch(grid=(1, 1, 1), block=(4096, 1, 1), args=[])

    return _before_forward(session, launch_too_many_threads)


@planted(
    about="the process takes all of the GPU's memory",
    backends=BACKENDS,
    blame=BACKEND,
    reaches=_has_gpus,
    least_gpus=LEAST_GPUS,
)
def device_memory(session: Session, _case: Case, _rank: int) -> Session:
    """Requests twice the GPU's memory in pieces that fit.

    So the process holds most of the memory when it runs out.
    """

    def take_all_memory() -> None:
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        pieces = [torch.empty(total // 16, dtype=torch.uint8, device="cuda") for _ in range(32)]
        pieces.clear()

    return _before_forward(session, take_all_memory)
