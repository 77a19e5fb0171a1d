"""Singular values and eigenvalues of float64 matrices have the accuracy of float32.

Exits 0 while the fault is there.
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


expected = MATRIX[6].round(10)
actual = np.asarray(jax.jit(from_eigenvalues)(*(MATRIX,)))
print(f"expected {np.asarray(expected).tolist()}, actual {actual.tolist()}")
sys.exit(bool(np.allclose(actual, expected, rtol=20 * 2.0 ** (-53), atol=0, equal_nan=True)))
