"""The oracle: one process, CPU, eager, float64, nothing sharded. What it computes is what a case means."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from difftest.case import Case
from difftest.layout import Placements, replicated
from difftest.noise import SAMPLES, spread
from difftest.outcome import Sharded, Trace
from workers import torch_side

if TYPE_CHECKING:
    from torch import Tensor

    from workers.session import Session

SIDE = "oracle"
PRELOAD = torch_side.PRELOAD


def unsupported(_case: Case) -> str | None:
    """Every case can be computed on one device."""
    return None


def processes(_case: Case) -> int:
    """One."""
    return 1


def environment(_case: Case) -> dict[str, str]:
    """Nothing special."""
    return {}


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Places nothing: tensors stay where they were made."""
    import torch

    from workers.session import Session

    def read(tensor: "Tensor", _placements: Placements) -> Sharded:
        alone = case.unsharded().layout.mesh
        pieces = {0: tensor.numpy().copy()}
        return Sharded(
            shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."), placements=replicated(alone), pieces=pieces
        )

    yield Session(
        dtype=torch.float64,
        place=lambda module: module,
        feed=lambda tensor: tensor,
        read=read,
        replay=lambda train: _with_noise(case, train),
        environment=_environment(),
    )


def _with_noise(case: Case, train: Callable[[], Trace]) -> Trace:
    """The unperturbed trace, with the deviation of the perturbed ones and the greatest magnitude that any of them met."""
    from workers.perturb import in_range, perturbed

    truth, samples, greatest = train(), [], 0.0
    for seed in range(SAMPLES):
        with perturbed(case.dtype, seed) as mode:
            samples.append(train())
        greatest = max(greatest, mode.greatest)
    events = {"greatest": greatest, "in_range": in_range(case.dtype, greatest)}
    return dataclasses.replace(truth, noise=spread(truth, samples), events=events)


def _environment() -> dict[str, str]:
    import torch

    return {"torch": torch.__version__, "device": "cpu"}
