"""`max`, `clamp` and `cummax` ignore NaN on the CPU.

Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", val=True)
expected = np.nan
function = jax.numpy.max
actual = np.asarray(jax.jit(function)(*(np.array([1.0, np.nan]),)))
print(f"expected {np.asarray(expected).tolist()}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected, rtol=20 * 2.0 ** (-53), atol=0, equal_nan=True)))
