"""A residual connection with an unevenly sharded second dim adds to the wrong rows.

It needs jaxlib alone. Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
MESH = sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))


def cut(x: jax.Array, *axes: str | None) -> jax.Array:
    return lax.with_sharding_constraint(x, sharding.NamedSharding(MESH, sharding.PartitionSpec(*axes)))


def residual(x: jax.Array) -> jax.Array:
    return cut(x, "a", "b") + (cut(x, "a", "b").reshape(6) * 10).reshape(2, 3)


expected = [[0, 11, 22], [33, 44, 55]]
actual = np.asarray(jax.jit(residual)(np.arange(6.0).reshape(2, 3)))
print(f"expected {expected}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected)))
