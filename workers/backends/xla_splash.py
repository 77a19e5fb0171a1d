"""XLA SPMD with torch_xla's splash attention where a model attends by a kernel.

Everything else is `xla_spmd`'s.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from workers import sides
from workers.backends import xla_spmd
from workers.xla import splash

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "XLA SPMD with splash attention"
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = replace(sides.TORCH_XLA, extras="xla,torchax")
PRELOAD = xla_spmd.PRELOAD
processes = xla_spmd.processes
environment = xla_spmd.environment
unsupported = splash.refusal


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """As `xla_spmd`, with other kernels."""
    yield xla_spmd.with_kernels(case, splash.operators)
