"""Tensor parallelism of a user's module: the styles of `parallelize_module` that her source has for it.

`tp_plan` is a dict from patterns of modules' names to styles, as `parallelize_module` takes it, or a function
`tp_plan(model, mesh)` that returns one; None for a mesh that it is not for. A style is one of torch's or a
word of transformers' plans. Where the source has none, the plan is that of the models of transformers in the
module. Which pieces of which parameters a plan gives is read from a module that a process group without other
ranks has parallelized.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn

from difftest.cases.case import Case
from difftest.ground.errors import UsageError
from workers.own import loaded
from workers.own.style_words import PLAN, by_word, carried, matched, of_source
from workers.own.trial import Trial, explained

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ParallelStyle

AXIS = "tp"

SIZES = (2, 4)
"""The sizes of the axis for which a plan is asked."""


def styles(functions: ModuleType, module: nn.Module, size: int) -> "dict[str, ParallelStyle]":
    """The plan for an axis of this size, with torch's styles; `UsageError` where it is no plan."""
    plan = of_source(functions)
    chosen = plan(module, {AXIS: size}) if callable(plan) else carried(module) if plan is None else plan
    if chosen is None:
        return {}
    if not isinstance(chosen, Mapping):
        msg = f"{PLAN} is {type(chosen).__name__}; needed: a dict of styles by patterns of modules' names"
        raise UsageError(msg)
    for pattern in chosen:
        if not matched(module, pattern):
            msg = f"{PLAN} has {pattern!r}, which no module matches"
            raise UsageError(msg)
    return {pattern: _style(pattern, style) for pattern, style in chosen.items()}


def _style(pattern: str, style: Any) -> "ParallelStyle":  # noqa: ANN401  what the user gives
    from torch.distributed.tensor.parallel import ParallelStyle

    if isinstance(style, ParallelStyle):
        return style
    words = by_word()
    if isinstance(style, str) and style in words:
        return words[style]
    msg = f"{PLAN} has {style!r} for {pattern!r}; allowed: a ParallelStyle of torch, or {', '.join(words)}"
    raise UsageError(msg)


def of_case(case: Case, module: nn.Module) -> "dict[str, ParallelStyle]":
    """The styles of a case's module, whose only child is the user's."""
    assert case.model.own  # noqa: S101  the caller has such a case
    size = case.layout.mesh.size(AXIS)
    made = styles(loaded.functions(case.model.own), module.get_submodule("0"), size)
    return {f"0.{pattern}": style for pattern, style in made.items()}


def cuts(trial: Trial, tied: Mapping[str, str]) -> tuple[dict[str, int | None], tuple[int, ...]]:
    """The parameters that the plan makes DTensors, with the dim that it cuts or None, and the axis's sizes.

    None is for one that it replicates. The sizes are those for which the module runs by the plan.
    `UsageError` where it does not run by one of the source's own with the least size.
    """
    required = of_source(trial.functions) is not None
    if not required and not carried(trial.module):
        return {}, ()
    by_layer: dict[int, dict[str, int | None]] = {}
    for size in SIZES:
        try:
            with explained(f"{PLAN} on {AXIS} of {size}"):
                placed = _placed(trial, tied, size)
        except UsageError:
            if required and not by_layer:
                raise
            break
        if placed:
            by_layer[size] = placed
    first = next(iter(by_layer.values()), {})
    return first, tuple(size for size, placed in by_layer.items() if placed == first)


def _placed(trial: Trial, tied: Mapping[str, str], size: int) -> dict[str, int | None]:
    """The cuts on an axis of this size, after a step of the parallelized module."""
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.parallel import parallelize_module

    with _alone(size) as mesh:
        plan = styles(trial.functions, trial.build(), size)
        if not plan:
            return {}

        module = parallelize_module(trial.made_in(torch.float32), mesh, plan)
        for name, owner in tied.items():
            path, _, own = name.rpartition(".")
            module.get_submodule(path).register_parameter(own, module.get_parameter(owner))
        trial.run(torch.float32, module=module)
        parameters = dict(module.named_parameters())
        placed = {name: one.placements[0] for name, one in parameters.items() if isinstance(one, DTensor)}
        return {name: at.dim if isinstance(at, Shard) else None for name, at in placed.items()}


@contextmanager
def _alone(size: int) -> "Iterator[DeviceMesh]":
    """A mesh whose other ranks do not exist: what is communicated is not right, its shapes are."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=0, world_size=size, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (size,), mesh_dim_names=(AXIS,))
    finally:
        distributed.destroy_process_group()
