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
normalized = Primitive("normalized")  # along all dims but the first, which JAX does by formulas
normalized.def_abstract_eval(lambda x, *_: x)
mlir.register_lowering(
    normalized, lambda _, *given: [stablehlo.BatchNormTrainingOp(*given, epsilon=0.0, feature_index=0).output]
)
eigen = Primitive("eigen")  # by XLA itself; JAX calls LAPACK
eigen.multiple_results = True
eigen.def_abstract_eval(lambda x: (x, x.update(shape=x.shape[:1])))


def eigen_lowering(_: object, x: mlir.ir.Value) -> list[mlir.ir.Value]:
    types = [x.type, mlir.ir.RankedTensorType.get(x.type.shape[:1], x.type.element_type)]
    sorted_to_tolerance = mlir.ir.StringAttr.get("1,1,100,0.000000000000001")
    return list(stablehlo.CustomCallOp(types, [x], "Eigh", backend_config=sorted_to_tolerance).results)


def from_eigenvalues(matrix: jax.Array) -> jax.Array:
    vectors, values = eigen.bind(matrix)
    return (vectors * values @ vectors.T)[6].round(10)


mlir.register_lowering(eigen, eigen_lowering)
NUMBERS = np.linspace(-0.4143, -0.4141, 20001)
ROW, MASK = np.array([[-1.0, 0.0, 1.0]]), np.zeros((), bool)
MATRIX = np.cos(np.add.outer(np.arange(8), np.arange(8)) ** 2)
FAULTS = {  # the right result, the function, and what it is given
    "right_shift": (2, lambda x, y: lax.div(x, power.bind(y + 1, y)), np.array(4), np.array(1)),
    "log1p_of_float64": (np.log1p(NUMBERS), jax.numpy.log1p, NUMBERS),
    "mask_hides_nan": (np.nan, lambda x, mask: x * mask.astype(x.dtype), np.array(np.inf), MASK),
    "variance": (ROW / np.sqrt(2 / 3), normalized.bind, 1e7 + ROW, np.ones(1), np.zeros(1)),
    "eigenvalues": (MATRIX[6].round(10), from_eigenvalues, MATRIX),
    "nan_ignored": (np.nan, jax.numpy.max, np.array([1.0, np.nan])),
}
missing = []
for name in sys.argv[1:] or list(FAULTS)[:-1]:
    expected, function, *given = FAULTS[name]
    actual = np.asarray(jax.jit(function)(*given))
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if np.allclose(actual, expected, rtol=20 * 2.0**-53, atol=0, equal_nan=True) else []
sys.exit(f"not there: {missing}" if missing else 0)
