"""Splash attention on XLA: torch_xla's own wrapper over JAX's newer kernels.

The wrapper cuts the batch over mesh axes named `data` and `fsdp` only. The axes that cut the batch get these
names, in the mesh's order; one that the case lacks has one rank. Heads are cut as those of flash attention.
The wrapper has no scale, so queries are scaled before, as its users do. Elsewhere than on a TPU the real
kernels are interpreted, by the flag that JAX's own tests use, and JAX, whose devices form the mesh, gets as
many CPU devices as there are ranks.
"""

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case
from workers.xla import devices, flash, pallas, sharding, start

if TYPE_CHECKING:
    from torch import Tensor

    from workers.training.operators import Operators, Scores

CALL_JAX = ("torchax", "flax")
"""torch_xla's wheel contains torchax, which fails to import without flax."""

BATCH_AXES = ("data", "fsdp")
"""The wrapper's own names; it asserts that the batch divides by their sizes."""


def refusal(case: Case) -> str | None:
    """Why splash attention cannot express `case` or cannot run here, or None."""
    attentions = case.model.flash_attentions.values()
    reasons = (
        (not attentions, "the model has no attention by a kernel"),
        (any(layer.bias for layer in attentions), "splash attention takes no bias"),
        (
            any(layer.keys != layer.length for layer in attentions),
            "splash attention takes as many keys as queries",
        ),
        (
            len(case.layout.batch_axes) > len(BATCH_AXES),
            "splash attention's wrapper takes at most two mesh axes that cut the batch",
        ),
        (
            case.part_rows % case.layout.data_ranks > 0,
            "splash attention's wrapper asserts that the ranks share the rows evenly",
        ),
        (
            not all(map(find_spec, CALL_JAX)),
            f"splash attention calls JAX by torch_xla's call_jax, which needs {' and '.join(CALL_JAX)}",
        ),
    )
    return next((reason for refused, reason in reasons if refused), None) or pallas.refusal(
        devices.fitting(case)
    )


def operators(world: sharding.World) -> "tuple[Operators, dict[str, str]]":
    """The operators for a case without `refusal`, and a description of the kernels for its environment."""
    from workers.training.operators import Operators

    how = _install(world.case)
    called = _names(world.case)
    spec = tuple(_renamed(entry, called) for entry in flash.partition_spec(world.case))
    attend = _SplashWrapper(mesh=_mesh(world, called), spec=spec).attend
    return Operators(attend=attend, grouped=True), {"pallas": how, "partition_spec": str(spec)}


def _names(case: Case) -> dict[str, str]:
    """The wrapper's name for each of the case's axes that cut the batch."""
    return dict(
        zip(
            (name for name in case.layout.mesh.names if name in case.layout.batch_axes),
            BATCH_AXES,
            strict=False,
        )
    )


def _renamed(entry: str | tuple[str, ...] | None, called: dict[str, str]) -> str | tuple[str, ...] | None:
    if isinstance(entry, tuple):
        return tuple(called.get(name, name) for name in entry)
    return entry if entry is None else called.get(entry, entry)


def _mesh(world: sharding.World, called: dict[str, str]) -> str:
    """The case's mesh with the wrapper's names; axes that the case lacks have one rank and stand last."""
    import numpy as np
    from torch_xla.distributed import spmd

    shape, names = start.axes(world.case)
    lacking = tuple(name for name in BATCH_AXES if name not in called.values())
    sizes = (*shape, *(1 for _ in lacking))
    return str(
        spmd.Mesh(np.arange(np.prod(sizes)), sizes, (*(called.get(name, name) for name in names), *lacking))
    )


def _install(case: Case) -> str:
    """Makes the kernels run on this device, and JAX have one device per rank: `compiled` or `interpreted`."""
    if devices.kind() == pallas.NATIVE:
        return "compiled"
    from torch_xla._internal.jax_workarounds import maybe_get_jax

    jax = maybe_get_jax()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", case.world_size)
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel

    kernel.make_splash_mha = partial(kernel.make_splash_mha, interpret=True)
    return "interpreted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplashWrapper:
    """torch_xla's wrapper for one mesh."""

    mesh: str
    spec: tuple[Any, ...]

    def attend(self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
        """`workers.training.operators.attend` by the splash kernels."""
        import torch
        from torch_xla.experimental import splash_attention as splash

        ids = None if scores.segments is None else scores.segments[0].to(torch.int32)
        config = splash.SplashAttentionConfig(
            mesh=self.mesh, qkv_partition_spec=self.spec, segment_ids_partition_spec=(self.spec[0], None)
        )
        mixed: Tensor = splash.splash_attention(
            query * scores.scale, key, value, config.to_json(), ids, scores.causal
        )
        return mixed
