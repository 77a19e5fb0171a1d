"""An update of a sharded dim whose start is too large is lost.

It needs jaxlib alone. Silent.
"""

import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
AT = sharding.NamedSharding(sharding.Mesh(np.array(jax.devices()), ("x",)), sharding.PartitionSpec("x"))


def written(x: jax.Array, y: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(x, y, (at,))


x, one, at = np.zeros(4, np.float32), np.ones(1, np.float32), np.int32(4)
expected = [0.0, 0.0, 0.0, 1.0]
actual = np.asarray(jax.jit(written, in_shardings=(AT, None, None), out_shardings=AT)(x, one, at)).tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(int(expected == actual))
