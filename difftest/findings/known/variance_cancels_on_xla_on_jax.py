"""Layer, group, instance and batch norm compute E[x²] - E[x]²: 2.5 % off at a mean of 1000, NaN at 10000.

Exits 0 while the fault is there.
"""

import sys
from collections.abc import Callable

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", val=True)
ROW = np.array([[-1.0, 0.0, 1.0]])


def primitive(name: str, lowering: Callable[..., list[mlir.ir.Value]]) -> Primitive:
    made = Primitive(name)
    made.def_abstract_eval(lambda x, *_: x)
    mlir.register_lowering(made, lambda _, *given: lowering(*given))
    return made


def batch_norm(*given: mlir.ir.Value) -> list[mlir.ir.Value]:
    return [stablehlo.BatchNormTrainingOp(*given, epsilon=0.0, feature_index=0).output]


expected = ROW / np.sqrt(2 / 3)
function = primitive("batch_norm", batch_norm).bind
actual = np.asarray(jax.jit(function)(*(10000000.0 + ROW, *np.eye(2)[:, :1])))
print(f"expected {expected}, actual {actual}")
sys.exit(bool(np.allclose(actual, expected, rtol=1e-10, atol=0)))
