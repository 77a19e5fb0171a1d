"""Without optimisation XLA's tanh of a large float32 number is 0.99999982 on the CPU, with jaxlib alone.

Exits 0 when the fault is there.
"""

import os
import sys

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
actual = jax.jit(jax.numpy.tanh)(np.float32(20)).item()
print(f"expected tanh(20) = {float(np.tanh(np.float32(20)))}, actual {actual}")
sys.exit(0 if actual < 1 else 1)
