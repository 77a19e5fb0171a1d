"""`conv1d` with a sharded kernel is doubled on a mesh with a second, replicated axis.

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


def conv1d(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(cut(x, None, None, "b"), cut(w, None, None, "b"), (1,), [(1, 1)])


expected = [16, 24, 24, 16]
actual = np.asarray(jax.jit(conv1d)(np.ones((1, 8, 4)), np.ones((1, 8, 3))))
print(f"expected {expected}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected)))
