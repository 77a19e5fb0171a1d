"""torchax: the same module on JAX arrays, every rank a device.

JAX's own partitioner (Shardy) partitions it, not torch_xla's: a second way to XLA. Where torch_xla is wrong
and torchax is right on the same layout, torch_xla's lowering is to blame; where both are wrong, XLA is.
torchax does not use torch's autograd: `jax.value_and_grad` differentiates the module's forward, compiled as
one program for each accumulation part, and torch's optimizer then updates the arrays operator by operator. On
GPUs it needs `jax[cuda12]` or `jax[cuda13]`, on TPUs `jax[tpu]`. It ran on CPUs and an H100 (docs/cuda.md).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from packaging.version import Version

from difftest.cases import flags
from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Placements, ways
from difftest.ground import installed
from difftest.judge.outcome import Sharded
from workers import sides
from workers.gpus import ON_GPUS, PLATFORMS, gpu_count
from workers.torch import process_groups
from workers.training.pieces import sharded
from workers.training.refusals import for_modules_only, own_batches
from workers.xla import devices, sharding, spmd

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.operators import Scores
    from workers.training.session import Forward, Outputs, Session

TITLE = "torchax"
SIDE = "xla"
FRAMEWORK = "torchax"
PROFILE = replace(sides.XLA, extras="torchax")
PRELOAD: tuple[str, ...] = (*process_groups.PRELOAD, "flax", "torchax", "torchax.interop")
processes = spmd.processes

SHARDY = "JAX_USE_SHARDY_PARTITIONER"
"""JAX's own variable for its partitioner, which it reads only as it is imported."""

PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")

WITH_MLIR_ALONE = Version("0.11")
"""The jaxlib from which on XLA:CPU has no other code than MLIR's."""

WITHOUT_OPERATOR = (Collective, Redistribute)
"""Layers that need a framework's own operator, which torchax lacks, or lacks on some device."""


def _with_mlir_alone() -> bool:
    release = installed.version("jaxlib")  # what is missing is said as a run starts
    return release is not None and Version(release) >= WITH_MLIR_ALONE


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why a layer, an uneven shard or checkpointing excludes `case`, or None."""
    lacking = [
        type(layer).__name__ for _, layer in walk(case.model.layers) if isinstance(layer, WITHOUT_OPERATOR)
    ]
    if lacking:
        return f"torchax has no {lacking[0]} of its own"
    if case.training_features:
        return "JAX differentiates and updates; features of training are those of torch's own loop"
    if _uneven(case):
        return "JAX puts arrays on devices in equal pieces only"
    if case.training.checkpointing:
        return "torch's checkpointing does not go through jax.grad"
    return own_batches(case)


def _uneven(case: Case) -> bool:
    return any(
        size % ways(dim, placements, case.layout.mesh)
        for shape, placements in case.placements()
        for dim, size in enumerate(shape)
    )


def environment(case: Case) -> dict[str, str]:
    """The variables for GPUs, TPU chips or the CPU.

    GPUs where every rank can have one and JAX has its plugin, else TPU chips where there are as many, else
    one virtual CPU device per rank.

    On a GPU JAX takes memory as it needs it (by default 75 % of the GPU's memory at once), and XLA is
    deterministic.
    """
    if gpu_count() >= case.world_size and any(map(find_spec, PLUGINS)):
        return {
            PLATFORMS: ON_GPUS,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_FLAGS": f"{flags.for_case(case, on_cpu=False)} {devices.DETERMINISTIC}",
        }
    if devices.kind() == "TPU" and devices.chips() >= case.world_size:
        return {PLATFORMS: "tpu", "XLA_FLAGS": flags.for_case(case, on_cpu=False)}
    usual = flags.for_case(case, with_mlir_alone=_with_mlir_alone())
    return {
        PLATFORMS: "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={case.world_size} {usual}",
    }


@dataclass(frozen=True, slots=True)
class _World:
    """The devices as JAX's mesh, and torchax's environment."""

    case: Case
    mesh: Any
    env: Any

    def put(self, tensor: "Tensor", placements: Placements) -> "Tensor":
        """A host tensor on the devices, cut as `placements` say."""
        import jax

        moved: Any = tensor.to("jax")
        moved.apply_jax_(jax.device_put, self.sharding(tensor.dim(), placements))
        cut: Tensor = moved
        return cut

    def sharding(self, dims: int, placements: Placements) -> Any:  # noqa: ANN401  JAX's
        """Placements of a tensor of `dims` dims as JAX has them."""
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(
            self.mesh, PartitionSpec(*sharding.partition_spec(dims, placements, self.case.layout.mesh.names))
        )


@contextmanager
def session(case: Case, _rank: int, _rendezvous: str) -> Iterator["Session"]:
    """One process over all devices; `accumulate` does forward and backward, because JAX differentiates."""
    import jax
    import torch
    import torchax

    from workers.training.operators import Operators
    from workers.training.session import Session

    jax.config.update("jax_platforms", os.environ[PLATFORMS])  # JAX was imported before the variable was set
    # torch's result types, and products at their most precise unless an ablation requests less.
    torchax.enable_accuracy_mode()
    jax.config.update("jax_default_matmul_precision", os.environ.get(devices.MATMUL_PRECISION, "highest"))
    if SHARDY in os.environ:
        jax.config.update("jax_use_shardy_partitioner", os.environ[SHARDY] != "0")
    chips = np.array(jax.devices()[: case.world_size]).reshape(case.layout.mesh.shape)
    world = _World(case, jax.sharding.Mesh(chips, case.layout.mesh.names), torchax.default_env())
    with world.env:
        yield Session(
            dtype=getattr(torch, case.dtype),
            place=partial(_place, world),
            feed=lambda tensor: world.put(tensor, case.layout.batch),
            read=partial(_read, world),
            device=_on(chips.flat[0].platform),
            accumulate=partial(_differentiate, world),
            operators=Operators(attend=_attend),
            environment=_describe(),
        )


def _attend(query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
    """Torch's operator as torchax implements it in JAX: there is no flash kernel outside TPUs."""
    from torch.nn.functional import scaled_dot_product_attention

    from workers.torch.flash import allowed

    mask = allowed(query, key, scores)
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=scores.causal and mask is None, scale=scores.scale
    )


def _place(world: _World, module: "nn.Module") -> "nn.Module":
    import jax

    from workers.training.build import tie_again

    module = module.to("jax")
    tie_again(module, world.case)
    tensors: dict[str, Any] = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    for name, placements in world.case.layout.parameters.items():
        tensor = tensors[name]
        where = world.sharding(tensor.dim(), placements)
        tensor.apply_jax_(partial(jax.device_put, device=where))
    return module


def _differentiate(
    world: _World, module: "nn.Module", parts: "Sequence[Sequence[Tensor]]", forward: "Forward"
) -> "tuple[list[Outputs], Tensor]":
    """The outputs and the loss of all parts; gradients are left in the parameters, as by `backward`.

    Buffers go into the compiled function and come out of it, as a running mean does: a value that it leaves
    in the module would be a tracer. Indices and masks, which no step changes, stay constants.
    """
    from torch.nn.utils import stateless
    from torchax import interop

    parameters = dict(module.named_parameters())
    buffers = {name: one for name, one in module.named_buffers() if one.is_floating_point() or not one.dim()}

    def loss(
        weights: "dict[str, Tensor]", state: "dict[str, Tensor]", part: "Sequence[Tensor]"
    ) -> "tuple[Tensor, tuple[Outputs, dict[str, Tensor]]]":
        # What functional_call does.
        with stateless._reparametrize_module(module, {**weights, **state}, tie_weights=True):  # noqa: SLF001
            given, loss = forward(*part)
            left = dict(module.named_buffers())
            return loss, (given, {name: left[name] for name in state})

    step = interop.jax_jit(interop.jax_value_and_grad(loss, kwargs_for_value_and_grad={"has_aux": True}))
    outputs, losses = [], []
    for part in parts:
        fed = [world.put(tensor, world.case.layout.batch) for tensor in part]
        (own, (output, after)), gradients = step(parameters, buffers, fed)
        for name, buffer in buffers.items():
            buffer.copy_(after[name])
        outputs.append(output)
        losses.append(own)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name] if parameter.grad is None else parameter.grad + gradients[name]
    return outputs, sum(losses[1:], losses[0])


def _read(world: _World, tensor: "Tensor", placements: Placements) -> Sharded:
    """Every rank's piece, taken from the shard on its own device where that holds it."""
    array: Any = tensor.jax()  # type: ignore[attr-defined]
    held = {
        shard.device.id: (shard.index, shard.replica_id, np.asarray(shard.data).astype(np.float32))
        for shard in array.addressable_shards
    }
    shards = [held[device.id] for device in world.mesh.devices.flat]
    pieces = sharding.cut(array.shape, shards, placements, world.case.layout.mesh)
    platforms = sorted({device.platform for device in array.devices()})
    return sharded(tensor, placements, pieces, tuple(array.shape), _on("+".join(platforms)))


def _on(platform: str) -> str:
    """The type of a device of JAX's, which is another than torch's device of that name."""
    return f"jax {platform}"


def _describe() -> dict[str, str]:
    import jax

    return {
        "device": jax.devices()[0].platform,
        "kind": jax.devices()[0].device_kind,
        "devices": str(len(jax.devices())),
        "partitioner": "shardy" if jax.config.jax_use_shardy_partitioner else "gspmd",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "matmul_precision": str(jax.config.jax_default_matmul_precision),
        **installed.versions("torch", "torchax", "jax", "jaxlib"),
    }
