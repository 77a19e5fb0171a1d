"""XLA SPMD with torch_xla's splash attention where a model attends by a kernel; everything else is `xla_spmd`'s."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from difftest.case import Case
from workers import xla_side, xla_splash
from workers.backends import xla_spmd

if TYPE_CHECKING:
    from workers.session import Session

SIDE = "xla"
ON_REQUEST = True
PRELOAD = xla_side.PRELOAD
environment = xla_side.environment
unsupported = xla_splash.refusal
processes = xla_spmd.processes


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """As `xla_spmd`, by other kernels."""
    with xla_spmd.joined(case, xla_splash.operators) as session:
        yield session
