"""Faults of XLA on CPUs with the XLA of jaxlib, without torch_xla; a name runs one alone.

Exits 0 when the faults are there. JAX has switched off what makes `nan_ignored`, which runs only by name.
"""

import os
import sys

os.environ |= {"JAX_PLATFORMS": "cpu"}
import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

jax.config.update("jax_enable_x64", val=True)
power = Primitive("power")  # of whole numbers, which JAX has no function for
power.def_abstract_eval(lambda x, _: x)
mlir.register_lowering(power, lambda _, x, y: [stablehlo.power(x, y)])

NUMBERS = np.linspace(-0.4143, -0.4141, 20001)
FAULTS = {  # the right result, the function, and what it is given
    "right_shift": (2, lambda x, y: lax.div(x, power.bind(y + 1, y)), np.array(4), np.array(1)),
    "log1p_of_float64": (np.log1p(NUMBERS), jax.numpy.log1p, NUMBERS),
    "nan_ignored": (np.nan, jax.numpy.max, np.array([1.0, np.nan])),
}
missing = []
for name in sys.argv[1:] or list(FAULTS)[:-1]:
    expected, function, *given = FAULTS[name]
    actual = np.asarray(jax.jit(function)(*given))
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if np.allclose(actual, expected, rtol=20 * 2.0**-53, atol=0, equal_nan=True) else []
sys.exit(f"not there: {missing}" if missing else 0)
