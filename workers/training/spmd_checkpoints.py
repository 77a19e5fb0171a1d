"""Distributed checkpoints of one process that has all devices, by what torch_xla has for them.

Tensors are loaded into others of the same shape, whose layout may be another one: by mesh axes that cut the
first dim or the last one.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils import _pytree

from difftest.cases.features.moved_checkpoint import Options
from workers.training import checkpoint_files
from workers.training.features import TrainingProgress

State: TypeAlias = dict[str, Any]
"""What is saved: the state of the `model`, and that of the `optimizer`."""

ROWS, COLUMNS = "rows", "columns"
"""The axes of another layout's mesh: two rows, or one where there is an odd number of devices."""

LAYOUTS: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "whole": {},
    "columns": {-1: (ROWS, COLUMNS)},
    "grid": {0: (ROWS,), -1: (COLUMNS,)},
    "sharded": {0: (ROWS, COLUMNS)},
    "hybrid": {0: (COLUMNS,)},
}
"""By which axes the first dim and the last one are cut."""


def has_all_devices() -> bool:
    """Whether this process enabled SPMD."""
    runtime = sys.modules.get("torch_xla.runtime")
    return bool(runtime and runtime.is_spmd())


def reload(progress: TrainingProgress, folder: str, *, resharded: bool) -> None:
    """Saves module and optimizer to `folder`, clears them, and loads them from it.

    `resharded`: parameters in other pieces, of the last dim.
    """
    state = state_of(progress)
    saved(state, folder)
    progress.forget()
    into = placed(state["model"], "columns") if resharded else state["model"]
    put_back(progress, loaded({**cleared(state), "model": into}, folder))


def move(progress: TrainingProgress, options: Options, folder: str) -> None:
    """Saves module and optimizer, loads them in another layout, saves these, and loads what that saved."""
    first, second = f"{folder}/first", f"{folder}/second"
    state = state_of(progress)
    saved(state, first, options.files)
    other = placed(state, options.layout, wide=options.wide)
    saved(loaded(other, first, options.files), second, options.files)
    progress.forget()
    put_back(progress, loaded(cleared(state), second, options.files))


def state_of(progress: TrainingProgress) -> State:
    """That of module and optimizer."""
    return {"model": progress.module.state_dict(), "optimizer": progress.optimizer.state_dict()}


def put_back(progress: TrainingProgress, state: State) -> None:
    """Loads both."""
    progress.module.load_state_dict(state["model"])
    progress.optimizer.load_state_dict(state["optimizer"])


def saved(state: State, folder: str, files: str = "files") -> None:
    """Writes a state, the optimizer's always to torch's own files.

    torch's writers copy tensors ahead on a stream of the device, which torchax has not where it was imported
    (`known/checkpoint_beside_torchax.py`), so they copy none ahead.
    """
    from torch_xla.experimental.distributed_checkpoint import SPMDSavePlanner

    for part, kind in _kinds(files):
        writer = checkpoint_files.writer(kind, f"{folder}/{part}")
        writer.per_thread_copy_ahead = 0
        save(state[part], storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)


def loaded(state: State, folder: str, files: str = "files") -> State:
    """Reads into the tensors of a state, which it gives back."""
    from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner

    for part, kind in _kinds(files):
        reader = checkpoint_files.reader(kind, f"{folder}/{part}")
        load(state[part], storage_reader=reader, planner=SPMDLoadPlanner(), no_dist=True)
    return state


def _kinds(files: str) -> Iterable[tuple[str, str]]:
    return (("model", files), ("optimizer", "files"))


def cleared(state: State) -> State:
    """The model's own tensors, and an optimizer's state of zeros."""
    return {"model": state["model"], "optimizer": _of_tensors(torch.zeros_like, state["optimizer"])}


def placed(state: State, layout: str, *, wide: bool = False) -> State:
    """The same structure, whose tensors are zeros in a layout; `wide`: those of real numbers in float64."""

    def zeros(tensor: Tensor) -> Tensor:
        dtype = torch.float64 if wide and tensor.is_floating_point() else tensor.dtype
        return _cut(torch.zeros(tensor.shape, dtype=dtype).to(tensor.device), LAYOUTS[layout])

    return _of_tensors(zeros, state)


def _of_tensors(function: Callable[[Tensor], Tensor], state: State) -> State:
    changed: State = _pytree.tree_map_only(Tensor, function, state)
    return changed


def _cut(tensor: Tensor, axes: Mapping[int, tuple[str, ...]]) -> Tensor:
    """The tensor, annotated with its dims' axes if it has dims and they are cut."""
    import torch_xla.runtime as xr
    from torch_xla.distributed import spmd

    if axes and tensor.dim():
        devices = xr.global_runtime_device_count()
        rows = 1 if devices % 2 else 2
        mesh = spmd.Mesh(list(range(devices)), (rows, devices // rows), (ROWS, COLUMNS))
        cuts: list[tuple[str, ...]] = [()] * tensor.dim()
        for dim, names in axes.items():
            cuts[dim] += names
        spmd.mark_sharding(tensor, mesh, tuple(names or None for names in cuts))
    return tensor
