"""Defects of the runtime that leave the numbers right.

JAX's own client beside torch_xla's (pytorch/xla#8812, #8954), and a graph that is another at every step.
"""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.judge.checks.recompile import SETTLED
from difftest.judge.outcome import Stage
from workers.faults import BACKEND, Fault
from workers.training.session import Session


def _discovers(
    times: int, guard: Callable[[], AbstractContextManager[None]]
) -> Callable[[Session, Case, int], Session]:
    """Plants `times` discoveries by JAX after the first backward."""

    def plant(session: Session, _case: Case, _rank: int) -> Session:
        def after(stage: Stage, step: int, _module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
            if (stage, step) == (Stage.BACKWARD, 0):
                with guard():
                    _discover(times)

        return replace(session, after=after)

    return plant


def _discover(times: int) -> None:
    import jax
    from jax._src import xla_bridge

    for _ in range(times):
        xla_bridge._clear_backends()  # noqa: SLF001  as a library does that wants JAX to see other devices
        xla_bridge.get_backend.cache_clear()
        jax.devices()


def _guarded() -> AbstractContextManager[None]:
    from torch_xla._internal.jax_workarounds import jax_env_context

    context: AbstractContextManager[None] = jax_env_context()
    return context


def _grows(session: Session, _case: Case, _rank: int) -> Session:
    """Adds zeros to every loss, one more of them each time."""
    times = itertools.count(1)
    return replace(
        session, total=lambda loss: session.total(loss) + torch.zeros(next(times), device=loss.device).sum()
    )


def _has_jax(_case: Case) -> bool:
    return find_spec("jax") is not None


FAULTS = (
    Fault(
        name="jax_unguarded",
        about="JAX discovers the devices beside torch_xla, without the guard",
        backends=("xla_spmd",),
        blame=BACKEND,
        reaches=_has_jax,
        plant=_discovers(1, nullcontext),
    ),
    Fault(
        name="jax_twice",
        about="JAX discovers the devices a second time, guarded",
        backends=("xla_spmd",),
        blame=BACKEND,
        reaches=_has_jax,
        plant=_discovers(2, _guarded),
    ),
    Fault(
        name="recompile",
        about="every step is compiled anew, because a shape grows",
        backends=("xla_spmd",),
        blame=BACKEND,
        reaches=lambda case: case.training.steps > SETTLED,
        plant=_grows,
    ),
)
