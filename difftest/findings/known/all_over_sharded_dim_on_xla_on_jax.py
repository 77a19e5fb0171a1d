"""`all` and `any` over a sharded dim fail for other dtypes than bool.

It needs jaxlib alone.
"""

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
MESH = sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))


def cut(x: jax.Array, *axes: str | None) -> jax.Array:
    return lax.with_sharding_constraint(x, sharding.NamedSharding(MESH, sharding.PartitionSpec(*axes)))


def all_of_numbers(x: jax.Array) -> jax.Array:
    return lax.reduce(cut(x, "a"), 1.0, lambda x, y: (x * y != 0).astype(float), (0,))


expected = 1
actual = np.asarray(jax.jit(all_of_numbers)(np.ones(4)))
print(f"expected {expected}, actual {actual.tolist()}")
