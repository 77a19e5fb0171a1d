"""Planted faults of the runtime that leave the numbers right.

JAX's own client beside torch_xla's (pytorch/xla#8812, #8954), and a graph that differs at every step.
"""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.judge.events import SETTLED_STEP
from difftest.judge.stage import Stage
from workers.faults import BACKEND, planted
from workers.training.session import Session


def _has_jax(_case: Case) -> bool:
    return find_spec("jax") is not None


def _discovering(session: Session, times: int, guard: Callable[[], AbstractContextManager[None]]) -> Session:
    """The session in which JAX discovers the devices, `times` times, after the first backward.

    `guard` gives the context in which it does.
    """

    def after(stage: Stage, step: int, _module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if (stage, step) == (Stage.BACKWARD, 0):
            with guard():
                _discover(times)

    return replace(session, after=after)


def _discover(times: int) -> None:
    import jax
    from jax._src import xla_bridge

    for _ in range(times):
        xla_bridge._clear_backends()  # noqa: SLF001  as a library does that wants JAX to see other devices
        xla_bridge.get_backend.cache_clear()
        jax.devices()


@planted(
    about="JAX discovers the devices beside torch_xla, without the guard",
    backends=("xla_spmd",),
    blame=BACKEND,
    reaches=_has_jax,
)
def jax_unguarded(session: Session, _case: Case, _rank: int) -> Session:
    """Without `jax_env_context`, torch_xla's guard around JAX."""
    return _discovering(session, 1, nullcontext)


@planted(
    about="JAX discovers the devices a second time, guarded",
    backends=("xla_spmd",),
    blame=BACKEND,
    reaches=_has_jax,
)
def jax_twice(session: Session, _case: Case, _rank: int) -> Session:
    """Within `jax_env_context`, torch_xla's guard around JAX."""
    from torch_xla._internal.jax_workarounds import jax_env_context

    return _discovering(session, 2, jax_env_context)


@planted(
    about="every step is compiled anew, because a shape grows",
    backends=("xla_spmd",),
    blame=BACKEND,
    reaches=lambda case: case.training.steps > SETTLED_STEP,
)
def recompile(session: Session, _case: Case, _rank: int) -> Session:
    """Adds zeros to every loss, one more of them each time."""
    times = itertools.count(1)

    def total(loss: torch.Tensor) -> torch.Tensor:
        return session.total(loss) + torch.zeros(next(times), device=loss.device).sum()

    return replace(session, total=total)
