"""Faults of XLA on CPUs with the XLA of jaxlib, without torch_xla; a name runs one alone.

Exits 0 when the faults are there.
"""

import sys

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", val=True)
MATRIX = np.cos(np.add.outer(np.arange(8), np.arange(8)) ** 2)
MASK = np.zeros((), bool)


def from_eigenvalues(matrix: jax.Array) -> jax.Array:
    def lowering(_: object, x: mlir.ir.Value) -> list[mlir.ir.Value]:
        types = [x.type, mlir.ir.RankedTensorType.get(x.type.shape[:1], x.type.element_type)]
        sorted_to_tolerance = mlir.ir.StringAttr.get("1,1,100,0.000000000000001")
        return list(stablehlo.CustomCallOp(types, [x], "Eigh", backend_config=sorted_to_tolerance).results)

    eigen = Primitive("eigen")  # by XLA itself; JAX calls LAPACK
    eigen.multiple_results = True
    eigen.def_abstract_eval(lambda x: (x, x.update(shape=x.shape[:1])))
    mlir.register_lowering(eigen, lowering)
    vectors, values = eigen.bind(matrix)
    return (vectors * values @ vectors.T)[6].round(10)


FAULTS = {  # the right result, the function, and what it is given
    "log1p_of_float64": (np.log1p(-0.4142), jax.numpy.log1p, np.array(-0.4142)),
    "mask_hides_nan": (np.nan, lambda x, mask: x * mask.astype(x.dtype), np.array(np.inf), MASK),
    "eigenvalues": (MATRIX[6].round(10), from_eigenvalues, MATRIX),
    # JAX has switched off what makes the last one, so that it runs only by name
    "nan_ignored": (np.nan, jax.numpy.max, np.array([1.0, np.nan])),
}
missing = []
for name in sys.argv[1:] or [name for name in FAULTS if name != "nan_ignored"] or FAULTS:
    expected, function, *given = FAULTS[name]
    actual = np.asarray(jax.jit(function)(*given))
    print(f"{name}: expected {np.asarray(expected).tolist()}, actual {actual.tolist()}")
    missing += [name] if np.allclose(actual, expected, rtol=20 * 2.0**-53, atol=0, equal_nan=True) else []
sys.exit(f"not there: {missing}" if missing else 0)
