"""`diagonal_scatter` of a diagonal written by `index_fill` or `index_copy` gives wrong elements.

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


def diagonal(x: jax.Array, at: jax.Array) -> jax.Array:
    eye = np.eye(4, dtype=bool)
    line = jax.numpy.where(eye, cut(x, "a"), 0.0).sum(0).at[at].set(-1.0)
    return jax.numpy.where(eye, lax.pad(line, 0.0, [(0, 0, 4)]).reshape(4, 4), x).diagonal()


expected = [-1, 5, 10, 15]
actual = np.asarray(jax.jit(diagonal)(np.arange(16.0).reshape(4, 4), np.zeros(1, int)))
print(f"expected {expected}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected)))
