"""A dynamic slice whose start is too large is taken at another place in each piece of a sharded dim.

It needs jaxlib alone. Silent.
"""

import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
AT = sharding.NamedSharding(sharding.Mesh(np.array(jax.devices()), ("x",)), sharding.PartitionSpec("x"))


def cut(x: jax.Array, start: jax.Array) -> jax.Array:
    return lax.dynamic_slice(x, (start,), (6,))


x, start = np.arange(8.0, dtype=np.float32), np.int32(5)
expected = x[2:].tolist()
actual = np.asarray(jax.jit(cut, in_shardings=(AT, None), out_shardings=AT)(x, start)).tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(int(expected == actual))
