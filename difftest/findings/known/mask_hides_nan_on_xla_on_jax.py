"""A product with a boolean mask hides NaN and infinity, as in the gradient of `amax`.

Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", val=True)
MASK = np.zeros((), bool)
expected = np.nan
actual = np.asarray(jax.jit(lambda x, mask: x * mask.astype(x.dtype))(*(np.array(np.inf), MASK)))
print(f"expected {np.asarray(expected).tolist()}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected, rtol=20 * 2.0 ** (-53), atol=0, equal_nan=True)))
