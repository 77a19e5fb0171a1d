"""A checkpoint that goes through another layout: saved, loaded into the same model in other pieces, and back.

What was saved is then all there is: the other model begins with zeros, and so does the first one when it gets
back what the other one saved. Equal to a run that does not save.
"""

import copy
from collections.abc import Callable

import torch
from torch import distributed, nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor

from difftest.cases.features.moved_checkpoint import Options
from workers.training import checkpoint_files, spmd_checkpoints
from workers.training.features import Hooks, TrainingProgress, nothing
from workers.training.features.distributed_checkpoint import folder_of_all, is_on_xla, own_errors

AXES = ("rows", "columns")
"""The names of the axes of another layout's mesh, which `fully_shard` requires of two."""


def hooks(options: Options) -> Hooks:
    """The other model is a copy from before the backend places it."""
    hosts: list[nn.Module] = []

    def place(module: nn.Module) -> nn.Module:
        hosts.append(copy.deepcopy(module))
        return module

    def before(progress: TrainingProgress) -> None:
        on_xla = is_on_xla(progress.module)
        if progress.step == options.step:
            with folder_of_all() as folder, own_errors():
                if on_xla:
                    spmd_checkpoints.move(progress, options, folder)
                else:
                    _move(progress, hosts.pop(), options, folder)

    return Hooks(place=place, before=before, leaves_device=True)


equal = nothing


def _move(progress: TrainingProgress, host: nn.Module, options: Options, folder: str) -> None:
    first, second = f"{folder}/first", f"{folder}/second"
    dtype = next(progress.module.parameters()).dtype
    device = next(progress.module.parameters()).device
    other = PLACED[options.layout](host.to(device, torch.float64 if options.wide else dtype))
    optimizer = progress.optimizer_of(other)
    saved(progress.module, progress.optimizer, options.files, first)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    loaded(other, optimizer, options.files, first)
    saved(other, optimizer, options.files, second)
    progress.forget()
    loaded(progress.module, progress.optimizer, options.files, second)


def saved(module: nn.Module, optimizer: torch.optim.Optimizer, files: str, folder: str) -> None:
    """Writes both to a folder, the optimizer always to torch's own files."""
    weights, kept = states.get_state_dict(module, optimizer)
    save(weights, storage_writer=checkpoint_files.writer(files, f"{folder}/model"))
    save({"optimizer": kept}, storage_writer=checkpoint_files.writer("files", f"{folder}/optimizer"))


def loaded(module: nn.Module, optimizer: torch.optim.Optimizer, files: str, folder: str) -> None:
    """Reads both."""
    weights, kept = states.get_state_dict(module, optimizer)
    load(weights, storage_reader=checkpoint_files.reader(files, f"{folder}/model"))
    load({"optimizer": kept}, storage_reader=checkpoint_files.reader("files", f"{folder}/optimizer"))
    states.set_state_dict(module, optimizer, model_state_dict=weights, optim_state_dict=kept)


def _cut(module: nn.Module, mesh: DeviceMesh, dims: int) -> nn.Module:
    """Every parameter in pieces of its last dim, and over a second axis, of its first."""
    placed: dict[nn.Parameter, nn.Parameter] = {}
    for parameter in module.parameters():
        last = [Shard(parameter.dim() - 1)] if parameter.dim() else [Replicate()]
        at: list[Placement] = [*([Shard(0)] if parameter.dim() else [Replicate()]), *last][-dims:]
        placed[parameter] = nn.Parameter(distribute_tensor(parameter.detach(), mesh, at))
    for inner in module.modules():
        for name, parameter in inner.named_parameters(recurse=False):
            inner.register_parameter(name, placed[parameter])
    return module


def _sharded(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    fully_shard(module, mesh=mesh)
    return module


def _line(module: nn.Module) -> DeviceMesh:
    return _mesh(module, distributed.get_world_size())


def _grid(module: nn.Module) -> DeviceMesh:
    """Two rows, or one where a smaller case has an odd number of ranks."""
    ranks = distributed.get_world_size()
    rows = 1 if ranks % 2 else 2
    return _mesh(module, rows, ranks // rows)


def _mesh(module: nn.Module, *shape: int) -> DeviceMesh:
    device = next(module.parameters()).device.type
    return init_device_mesh(device, shape, mesh_dim_names=AXES[-len(shape) :])


PLACED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "whole": lambda module: module,
    "columns": lambda module: _cut(module, _line(module), 1),
    "grid": lambda module: _cut(module, _grid(module), 2),
    "sharded": lambda module: _sharded(module, _line(module)),
    "hybrid": lambda module: _sharded(module, _grid(module)),
}
"""The same module in each layout."""
