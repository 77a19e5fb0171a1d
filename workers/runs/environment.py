"""What a rank's numbers may depend on: versions, devices, flags, seeds, mesh, commit, optimizer."""

import gc
import os
import platform
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from difftest.ground.installed import COMPUTING, everything, versions
from difftest.runs.layout import ModuleDescription, Package, RankEnvironment
from workers.runs.hooks import named
from workers.runs.owned import owned
from workers.runs.placing import BatchPlace, axis_names, is_dtensor

PACKAGES = (*COMPUTING, "numpy", "triton", "transformers", "accelerate", "lightning", "torchtitan")

FLAGS = re.compile(
    r"(XLA|PJRT|TORCH|PYTORCH|NCCL|GLOO|CUDA|CUBLAS|NVIDIA_TF32|LIBTPU|TPU|OMP|MKL|CPU_NUM)(_|$)"
)
"""Environment variables that change numbers. Others may be secrets, and are not recorded."""

PRIVATE = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|HOST|ADDR|URL|STORE|RUN_ID|ERROR_FILE|WORKER")

OWN_ENTRIES = frozenset({"params", "foreach", "fused", "capturable", "lr", "initial_lr"})
"""Entries of an optimizer's groups that change nothing, or step by step."""


def environment(
    models: Sequence[nn.Module], optimizers: Sequence[Any], batch: BatchPlace, *, perturbed: float, every: int
) -> RankEnvironment:
    """The environment of this rank."""
    rank, ranks = world()
    settings = {
        **versions(*PACKAGES),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **_device(models[0]),
        **_flags(),
        **_torch_flags(),
        "seed": str(torch.initial_seed()),
        **_mesh(models),
        "wrapper": type(models[0]).__name__,
        **_git(),
        **{key: value for optimizer in optimizers for key, value in _optimizer(optimizer).items()},
    }
    modules = tuple(
        ModuleDescription(path=path, kind=type(module).__name__, arguments=module.extra_repr())
        for model in models
        for path, module in named(model).items()
    )
    return RankEnvironment(
        rank=rank,
        world_size=ranks,
        data_ranks=batch.ranks,
        settings=settings,
        modules=modules,
        parameters=tuple(dict.fromkeys(one.name for one in owned(models))),
        perturbed=perturbed,
        every=every,
        packages={
            name: Package(version=version, pins=pins) for name, (version, pins) in everything().items()
        },
    )


def world() -> tuple[int, int]:
    """The rank of this process, and the number of ranks."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def data_parallel(models: Sequence[nn.Module]) -> BatchPlace:
    """The place of this rank among those over which the batch is cut, as far as the model shows it.

    That of DDP's group or of FSDP's mesh. Otherwise it is the whole world, unless parameters are DTensors or
    the model is a stage of a pipeline.
    """
    for module in (module for model in models for module in model.modules()):
        if isinstance(module, nn.parallel.DistributedDataParallel):
            group = module.process_group
            return BatchPlace(distributed.get_rank(group), distributed.get_world_size(group))
        if _is_fsdp1(module):
            return _fsdp1_batch(module)
        if mesh := _fsdp_mesh(module):
            place = 0
            for size, coordinate in zip(mesh.shape, mesh.get_coordinate() or (), strict=True):
                place = place * size + coordinate
            return BatchPlace(place, mesh.size())
    cut = any(is_dtensor(parameter) for model in models for parameter in model.parameters())
    if cut or len(models) > 1 or stage_of(models[0]):
        return BatchPlace()
    return BatchPlace(*world())


def averages(models: Sequence[nn.Module]) -> bool:
    """Whether a wrapper averages the gradients over the data-parallel ranks."""
    return any(
        isinstance(module, nn.parallel.DistributedDataParallel) or _is_fsdp1(module) or _fsdp_mesh(module)
        for model in models
        for module in model.modules()
    )


def stage_of(model: nn.Module) -> Any:  # noqa: ANN401  a PipelineStage
    """The stage of a pipeline that runs this model; None where torch's pipelining has none."""
    stages = sys.modules.get("torch.distributed.pipelining.stage")
    if stages is None:
        return None
    kind = stages._PipelineStageBase  # noqa: SLF001  stages made in either way have no other common class
    made = (one for one in gc.get_objects() if issubclass(type(one), kind))
    return next((one for one in made if one.submod is model), None)


def _is_fsdp1(module: nn.Module) -> bool:
    wrapper = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    return wrapper is not None and isinstance(module, wrapper.FullyShardedDataParallel)


def _fsdp1_batch(module: Any) -> BatchPlace:  # noqa: ANN401  a FullyShardedDataParallel
    """The place in FSDP1's group; with replicas of these, in all of them."""
    rank, ranks = distributed.get_rank(module.process_group), distributed.get_world_size(module.process_group)
    replicas = getattr(module, "_inter_node_pg", None)
    if replicas is None:
        return BatchPlace(rank, ranks)
    place = distributed.get_rank(replicas)
    return BatchPlace(place * ranks + rank, distributed.get_world_size(replicas) * ranks)


def _fsdp_mesh(module: nn.Module) -> Any:  # noqa: ANN401  a DeviceMesh, or None
    """The mesh of a module that `fully_shard` was called on."""
    state = getattr(module, "_get_fsdp_state", None)  # there is no public equivalent
    if state is None:
        return None
    group = getattr(state(), "_fsdp_param_group", None)
    return group.mesh_info.mesh if group else None


def _device(model: nn.Module) -> dict[str, str]:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    shown = {"device": device.type}
    if device.type == "cuda":
        name, ability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
        shown |= {"gpu": f"{name}, compute capability {ability[0]}.{ability[1]}"}
        shown |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    if device.type == "xla":
        from torch_xla import runtime

        shown |= {"devices": f"{runtime.global_runtime_device_count()} x {runtime.device_type()}"}
        shown |= {"spmd": str(runtime.is_spmd())}
    return shown


def _flags() -> dict[str, str]:
    return {
        f"${name}": value
        for name, value in sorted(os.environ.items())
        if FLAGS.match(name) and not PRIVATE.search(name)
    }


def _torch_flags() -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of the older of its two ways to set the precision
        precision = torch.get_float32_matmul_precision()
    return {
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "float32 matmul precision": precision,
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "cudnn.benchmark": str(torch.backends.cudnn.benchmark),
        "threads": str(torch.get_num_threads()),
    }


def _mesh(models: Sequence[nn.Module]) -> dict[str, str]:
    """The largest mesh of the model's DTensors."""
    parameters: list[Any] = [
        parameter for model in models for parameter in model.parameters() if is_dtensor(parameter)
    ]
    meshes = [parameter.device_mesh for parameter in parameters]
    if not meshes:
        return {}
    mesh = max(meshes, key=lambda one: one.ndim)
    axes = zip(axis_names(mesh), mesh.shape, strict=True)
    return {"mesh": ", ".join(f"{name}={size}" for name, size in axes)}


def _optimizer(optimizer: Any) -> dict[str, str]:  # noqa: ANN401  of any make
    """The optimizer's class and its groups' numbers; the learning rate is recorded step by step."""
    shown = {"optimizer": type(optimizer).__name__}
    for name in sorted({name for group in optimizer.param_groups for name in group} - OWN_ENTRIES):
        values = dict.fromkeys(str(group.get(name)) for group in optimizer.param_groups)
        shown[f"optimizer {name}"] = ", ".join(values)
    return shown


def _git() -> dict[str, str]:
    """The commit of the script's folder, and whether something in it is changed; nothing without git."""
    script = Path(sys.argv[0] or ".").resolve()
    folder = script if script.is_dir() else script.parent
    state = {}
    for name, words in {
        "commit": ["rev-parse", "HEAD"],
        "changed": ["status", "--porcelain", "-uno"],
    }.items():
        try:
            command = ["git", "-C", str(folder), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return {}
        if done.returncode:
            return {}
        state[name] = done.stdout.strip()
    return {"commit": state["commit"], "uncommitted changes": "yes" if state["changed"] else "no"}
