"""`log1p` and `atanh` of float64 are up to 240 roundoffs off on CPUs.

Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", val=True)
expected = np.log1p(-0.4142)
function = jax.numpy.log1p
actual = np.asarray(jax.jit(function)(*(np.array(-0.4142),)))
print(f"expected {np.asarray(expected).tolist()}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected, rtol=20 * 2.0 ** (-53), atol=0, equal_nan=True)))
