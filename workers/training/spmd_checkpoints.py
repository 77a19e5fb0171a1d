"""Distributed checkpoints of one process that has all devices, by what torch_xla has for them."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from workers.training.features import TrainingProgress


def has_all_devices() -> bool:
    """Whether this process enabled SPMD."""
    runtime = sys.modules.get("torch_xla.runtime")
    return bool(runtime and runtime.is_spmd())


def reload(progress: TrainingProgress, folder: str, *, resharded: bool) -> None:
    """Saves module and optimizer to `folder`, clears them, and loads them from it.

    `resharded`: parameters in other pieces.

    torch's writer copies tensors ahead on a stream of the device, which torchax has not where it was imported
    (`known/checkpoint_beside_torchax.py`), so it copies none ahead.
    """
    from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, SPMDSavePlanner

    module, optimizer = progress.module, progress.optimizer
    weights, kept = module.state_dict(), optimizer.state_dict()
    writer = FileSystemWriter(folder, per_thread_copy_ahead=0)
    saved = {"model": weights, "optimizer": kept}
    save(saved, storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)
    progress.forget()
    state = {"model": _like(weights, resharded=resharded), "optimizer": _zeros(kept)}
    load(state, storage_reader=FileSystemReader(folder), planner=SPMDLoadPlanner(), no_dist=True)
    module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def _like(weights: Mapping[str, Tensor], *, resharded: bool) -> dict[str, Tensor]:
    """The module's tensors, or others in which the last dim is cut over all devices."""
    return {name: _cut_otherwise(tensor) if resharded else tensor for name, tensor in weights.items()}


def _cut_otherwise(tensor: Tensor) -> Tensor:
    import torch_xla.runtime as xr
    from torch_xla.distributed import spmd

    devices = xr.global_runtime_device_count()
    zeros = torch.zeros(tensor.shape, dtype=tensor.dtype).to(tensor.device)
    if tensor.dim():
        mesh = spmd.Mesh(list(range(devices)), (devices,), ("all",))
        spmd.mark_sharding(zeros, mesh, (*[None] * (tensor.dim() - 1), "all"))
    return zeros


def _zeros(state: Any) -> Any:  # noqa: ANN401  what a state holds
    """The same structure, whose tensors are zeros."""
    if isinstance(state, dict):
        return {name: _zeros(value) for name, value in state.items()}
    return torch.zeros_like(state) if isinstance(state, Tensor) else state
