"""`torch.distributed.checkpoint`: all ranks save module and optimizer to one folder, and load them from it.

What was saved is then all there is: parameters are set to zero and the optimizer forgets its state before
they are loaded. `resharded`: parameters are loaded in other pieces than those that were saved, as on another
mesh. Equal to a run that does not save.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor

from difftest.cases.features.distributed_checkpoint import Options
from difftest.ground.errors import UnsupportedError
from workers.training import spmd_checkpoints
from workers.training.checkpoint_files import is_first, wait
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """Before step `step`."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            reload = spmd_checkpoints.reload if is_on_xla(progress.module) else _reload
            with folder_of_all() as folder, own_errors():
                reload(progress, folder, resharded=options.resharded)

    return Hooks(before=before, leaves_device=True)


equal = nothing


def is_on_xla(module: nn.Module) -> bool:
    """Whether one process has all devices; `UnsupportedError` where ranks are no process group of torch's."""
    on_xla = any(parameter.device.type == "xla" for parameter in module.parameters())
    if on_xla != spmd_checkpoints.has_all_devices() or not (on_xla or distributed.is_initialized()):
        msg = "those who save are the ranks of a process group of torch's, or one process with all devices"
        raise UnsupportedError(msg)
    return on_xla


@contextmanager
def own_errors() -> Iterator[None]:
    """Raises what a rank raised: torch wraps it into an exception that ends the process."""
    try:
        yield
    except CheckpointException as error:
        first, _ = next(iter(error.failures.values()))
        raise first from None


@contextmanager
def folder_of_all() -> Iterator[str]:
    """One folder for all ranks, which rank 0 makes and removes."""
    names = [tempfile.mkdtemp() if is_first() else ""]
    if distributed.is_initialized():
        distributed.broadcast_object_list(names)
    yield names[0]
    wait()
    if is_first():
        shutil.rmtree(names[0])


def _reload(progress: TrainingProgress, folder: str, *, resharded: bool) -> None:
    module, optimizer = progress.module, progress.optimizer
    weights, kept = states.get_state_dict(module, optimizer)
    save({"model": weights, "optimizer": kept}, checkpoint_id=folder)
    progress.forget()
    weights, kept = states.get_state_dict(module, optimizer)
    targets = {name: _cut_otherwise(tensor) if resharded else tensor for name, tensor in weights.items()}
    load({"model": targets, "optimizer": kept}, checkpoint_id=folder)
    loaded = {name: _cut_like(weights[name], tensor) for name, tensor in targets.items()}
    states.set_state_dict(module, optimizer, model_state_dict=loaded, optim_state_dict=kept)


def _cut_otherwise(tensor: Any) -> Any:  # noqa: ANN401  what a state holds
    """A DTensor of the same shape in other pieces, on a mesh of one axis; anything else as it is."""
    if not isinstance(tensor, DTensor):
        return tensor
    mesh = init_device_mesh(tensor.device_mesh.device_type, (tensor.device_mesh.size(),))
    zeros = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.to_local().device)
    return distribute_tensor(zeros, mesh, [_other(tensor)])


def _other(tensor: DTensor) -> Placement:
    """Along the last dim what was cut along the first, and otherwise along the first."""
    cut_first = any(placement.is_shard(0) for placement in tensor.placements)
    if not tensor.dim():
        return Replicate()
    return Shard(tensor.dim() - 1 if cut_first else 0)


def _cut_like(model: Any, tensor: Any) -> Any:  # noqa: ANN401  what a state holds
    """`tensor` in the pieces of `model`."""
    if not isinstance(model, DTensor) or not isinstance(tensor, DTensor):
        return tensor
    whole: Tensor = tensor.full_tensor()
    return distribute_tensor(whole, model.device_mesh, model.placements)
