"""The gradient of max pooling is wrong where windows overlap along a sharded dim.

It needs jaxlib alone. Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
CUT = sharding.NamedSharding(sharding.Mesh(np.array(jax.devices()), ("x",)), sharding.PartitionSpec("x"))


def pooled(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID").sum()


numbers = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
expected = jax.grad(pooled)(numbers).tolist()
actual = jax.jit(jax.grad(pooled), in_shardings=CUT, out_shardings=CUT)(numbers).tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
