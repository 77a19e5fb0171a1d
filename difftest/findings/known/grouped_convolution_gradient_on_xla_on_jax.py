"""The weight gradient of a grouped convolution is twice too large on a mesh with a second, replicated axis.

The fault is the partitioner's of XLA: GSPMD and Shardy both show it. Exits 0 when it is there.
"""

import sys

import jax
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)


def gradient(mesh: jax.sharding.Mesh) -> np.ndarray:
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    def total(weight: jax.Array, rows: jax.Array) -> jax.Array:
        rows = lax.with_sharding_constraint(rows, sharding)
        return (lax.conv_general_dilated(rows, weight, (1,), [(1, 1)], feature_group_count=4) ** 2).sum()

    return np.asarray(jax.jit(jax.grad(total))(np.ones((4, 1, 3)), np.ones((4, 4, 4))))[0, 0]


devices = np.array(jax.devices())
one = gradient(jax.sharding.Mesh(devices, ("data",)))
two = gradient(jax.sharding.Mesh(devices.reshape(2, 2), ("data", "model")))
print(f"expected [64, 80, 64], actual on a mesh of 4 {one}, on a mesh of 2 x 2 {two}")
sys.exit(0 if np.allclose(one, [64, 80, 64]) and not np.allclose(two, one) else 1)
