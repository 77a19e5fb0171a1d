"""A constant that is added to the transpose of a product of no columns is transposed too.

Exits 0 while the fault is there.
"""

import sys

import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
function = jax.jit(lambda one, other: -(NUMBERS + (other.T @ one).T))
actual = np.asarray(function(np.zeros((0, 2), np.float32), np.zeros((0, 3), np.float32)))
print(f"expected {(-NUMBERS).tolist()}, actual {actual.tolist()}")
sys.exit(bool(np.array_equal(actual, -NUMBERS)))
