"""The oracle: one process on the CPU, eager, in float64, unsharded. It defines what a case means."""

import dataclasses
import os
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from difftest.cases import numbers
from difftest.cases.block import calls_control_flow
from difftest.cases.case import Case
from difftest.cases.layout import Placements, replicated
from difftest.judge.events import Events
from difftest.judge.noise import (
    PRECISIONS,
    SAMPLED_STEPS_VARIABLE,
    SAMPLES,
    SAMPLES_VARIABLE,
    finite,
    spread,
)
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from workers.sides import Profile
from workers.torch import process_groups
from workers.training.pieces import sharded, values

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.session import Session

TITLE = "the float64 reference"
SIDE = "oracle"
FRAMEWORK = ""
PROFILE = Profile()
PRELOAD = process_groups.PRELOAD


def unsupported(_case: Case) -> str | None:
    """None: every case can be computed on one device."""
    return None


def processes(_case: Case) -> int:
    """One."""
    return 1


def environment(_case: Case) -> dict[str, str]:
    """No variables."""
    return {}


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Joins without placing anything: tensors stay where they were made."""
    import torch

    from workers.own import loops
    from workers.training import reference_kernels
    from workers.training.expert_rows import by_rows
    from workers.training.operators import Operators
    from workers.training.session import Session

    reference_kernels.replaced()
    if case.model.own or calls_control_flow(case.model.layers):
        loops.replaced()
    alone = replicated(case.unsharded().layout.mesh)

    def read(tensor: "Tensor", _placements: Placements) -> Sharded:
        wide = tensor.double() if tensor.is_floating_point() else tensor
        return sharded(tensor, alone, {0: values(wide).copy()})

    yield Session(
        dtype=torch.float64,
        wide=True,
        place=lambda module: module,
        feed=lambda tensor: tensor,
        read=read,
        device="cpu",
        spelled=False,
        operators=Operators(route=by_rows),
        replay=lambda train, joined: _with_noise(case, train, joined),
        environment={"torch": torch.__version__, "device": "cpu"},
    )


def _with_noise(case: Case, train: "Callable[[Session], Trace]", joined: "Session") -> Trace:
    """The float64 trace, with the deviations of perturbed runs and of a run in the case's dtype as noise.

    The perturbed runs round at random; the run in the dtype rounds to nearest, whose errors may add up over
    many steps. Where the last steps are not in doubt, the samples beyond the usual ones end before them.
    """
    import torch

    from workers.training.dispatched import Dispatched
    from workers.training.perturb import coarsest, in_range, masks
    from workers.training.perturb_program import perturbed

    truth, samples, greatest = train(joined), [], 0.0
    dtype, program = getattr(torch, case.dtype), case.model.is_program
    dispatched = Dispatched(by_layer=program)
    native = train(dataclasses.replace(joined, dtype=dtype, wide=False, observe=dispatched.observe))
    # A program may name dtypes, which its results have; a model has no facts. The gradient of an operand is
    # rounded to the operand's dtype where it is computed, before it is added up over ranks.
    results = (fact.dtype for fact in native.events.facts.values())
    rounded = coarsest((case.dtype, *results), case.dtype)
    steps = int(os.environ.get(SAMPLED_STEPS_VARIABLE, case.training.steps))
    for seed in range(int(os.environ.get(SAMPLES_VARIABLE, SAMPLES))):
        with perturbed(rounded, seed, program=program) as mode:
            mode.masks = masks(case.dtype) if case.model.own else ()
            samples.append(train(dataclasses.replace(joined, steps=steps) if seed >= SAMPLES else joined))
        greatest = max(greatest, mode.greatest)
    flushed = [
        train(dataclasses.replace(joined, place=partial(_flushed, case, operands)))
        for operands in _flushed_together(case)
    ]
    roundoff = torch.finfo(getattr(torch, rounded)).eps / 2
    noise, farthest = spread(truth, samples, native, roundoff, by_element=program, flushed=flushed)
    # A program may have infinities and NaN, and is decided element by element.
    in_bounds = in_range(rounded, greatest) and (program or finite(native))
    events = Events(
        greatest=greatest,
        in_range=in_bounds,
        native=farthest,
        reached=dispatched.reached(),
        facts=native.events.facts,
        dtypes=_dtypes(native, case.model.statistics()) if case.model.own else {},
        state=native.events.state,
    )
    return dataclasses.replace(truth, noise=noise, events=events)


def _dtypes(native: Trace, buffers: Container[str]) -> dict[str, str]:
    """The dtypes of buffers, and of the tensors of the forward but the loss, which is this project's."""
    return {
        name: tensor.dtype
        for (stage, name), tensor in native.steps[0].items()
        if name in buffers or (stage is Stage.FORWARD and name != "loss")
    }


def _flushed_together(case: Case) -> list[frozenset[str]]:
    """The sets of a program's operands to flush: all with subnormal values, and each of several alone.

    XLA flushes them: a step of an operator may lie between. Of two it may flush the one that it adds up over
    devices: a power is 1 where both are zeros, or neither is, and 0 where the base alone is.
    """
    if not case.model.is_program:
        return []
    subnormal = [
        name
        for name, values in numbers.weights(case).items()
        if ((values != 0) & (np.abs(values) < _flushed_below(case, name))).any()
    ]
    alone = [frozenset((name,)) for name in subnormal]
    return alone if len(alone) < 2 else [frozenset(subnormal), *alone]  # noqa: PLR2004


def _flushed(case: Case, operands: frozenset[str], module: "nn.Module") -> "nn.Module":
    """The module of a program, in which the subnormal values of `operands` are zeros of their sign."""
    for name, parameter in module.named_parameters():
        if name in operands:
            values = parameter.data
            values[values.abs() < _flushed_below(case, name)] *= 0.0
    return module


def _flushed_below(case: Case, name: str) -> float:
    """The magnitude below which XLA on CPU takes an operand's values for zero; 0 where it takes none."""
    dtype = case.model.dtypes(case.dtype)[name]
    return PRECISIONS[dtype].flushed if dtype in PRECISIONS else 0.0
