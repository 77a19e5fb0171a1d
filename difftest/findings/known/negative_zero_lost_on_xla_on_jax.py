"""A sharded -0.0 becomes 0.0 where the SPMD partitioner gives every device what only one of them holds.

It needs jaxlib alone. Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
MESH = sharding.Mesh(np.array(jax.devices()), ("a",))


def cut(x: jax.Array, *axes: str | None) -> jax.Array:
    return lax.with_sharding_constraint(x, sharding.NamedSharding(MESH, sharding.PartitionSpec(*axes)))


def reciprocal(x: jax.Array) -> jax.Array:
    return 1 / cut(cut(x, None, "a"), None, None)


expected = [[-np.inf], [-np.inf]]
actual = np.asarray(jax.jit(reciprocal)(np.full((2, 1), -0.0)))
print(f"expected {expected}, actual {actual.tolist()}")
sys.exit(bool(np.array_equal(actual, expected)))
