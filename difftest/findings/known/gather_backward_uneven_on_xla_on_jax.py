"""A scatter by unevenly sharded indices aborts, as in the gradient of `gather`.

It needs jaxlib alone. It aborts, or exits 0, while the fault is there.
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


def scatter(x: jax.Array, at: jax.Array) -> jax.Array:
    return cut(x, "a").at[jax.numpy.arange(3)[:, None], cut(at, "a")].add(1.0).sum()


expected = 3
actual = np.asarray(jax.jit(scatter)(np.zeros((3, 4)), np.zeros((3, 1), int)))
print(f"expected {expected}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected)))
