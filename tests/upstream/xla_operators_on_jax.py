"""Faults of operators of XLA that JAX has no function for; names select. Exits 0 if the faults are there."""

import sys
from collections.abc import Callable

import jax
import numpy as np
from jax import lax
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


def right_shift(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.div(x, primitive("power", lambda x, y: [stablehlo.power(x, y)]).bind(y + 1, y))


def batch_norm(*given: mlir.ir.Value) -> list[mlir.ir.Value]:
    return [stablehlo.BatchNormTrainingOp(*given, epsilon=0.0, feature_index=0).output]


FAULTS = {  # the right result, the function, and what it is given
    "right_shift": (2, right_shift, np.array(4), np.array(1)),
    "variance": (
        ROW / np.sqrt(2 / 3),
        primitive("batch_norm", batch_norm).bind,
        1e7 + ROW,
        *np.eye(2)[:, :1],
    ),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    expected, function, *given = FAULTS[name]
    actual = np.asarray(jax.jit(function)(*given))
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if np.allclose(actual, expected, rtol=1e-10, atol=0) else []
sys.exit(f"not there: {missing}" if missing else 0)
