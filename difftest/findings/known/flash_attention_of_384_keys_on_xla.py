"""torch_xla's flash attention of 384 keys has no gradient; of 256 and of 512 keys it has one.

The pass for the query's gradient takes 512 keys at a time in blocks of 256. Both numbers are cut to the
number of keys, and JAX's kernel refuses 384 keys in blocks of 256. Above 512 it refuses what 512 does not
divide (640). The forward pass pads the keys since pytorch/xla#8671. The kernels are only traced here, for
which no TPU is needed. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from functools import partial
from typing import Any

os.environ.update(PJRT_DEVICE="CPU", JAX_PLATFORMS="cpu")
import jax
import jax.experimental.pallas.ops.tpu.flash_attention  # before jit is replaced
import torch
import torch_xla
from torch_xla.experimental.custom_kernel import flash_attention

jit: Any = jax.jit


def lowers_for_tpu(function: Any, **options: Any) -> Any:
    made = jit(function, **options)
    made_for_tpu: Any = partial(made)
    made_for_tpu.lower = lambda *a, **k: made.trace(*a, **k).lower(lowering_platforms=("tpu",))
    return made_for_tpu


def gradient(keys: int) -> str:
    q, k, v = (torch.ones(1, 1, keys, 16, device=torch_xla.device(), requires_grad=True) for _ in range(3))
    try:
        flash_attention(q, k, v).sum().backward()
    except ValueError as error:
        return f"ValueError: {error}"
    return f"gradients of {list(q.grad.shape)}"


jax.jit = lowers_for_tpu
results = {keys: gradient(keys) for keys in (256, 384, 512)}
print(f"expected gradients, actual {results}")
sys.exit("divisible" not in results[384])
