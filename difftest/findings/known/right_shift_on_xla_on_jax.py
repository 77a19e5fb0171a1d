"""An integer tensor shifted right by a tensor is 0.

Exits 0 while the fault is there.
"""

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


def primitive(name: str, lowering: Callable[..., list[mlir.ir.Value]]) -> Primitive:
    made = Primitive(name)
    made.def_abstract_eval(lambda x, *_: x)
    mlir.register_lowering(made, lambda _, *given: lowering(*given))
    return made


def right_shift(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.div(x, primitive("power", lambda x, y: [stablehlo.power(x, y)]).bind(y + 1, y))


actual = np.asarray(jax.jit(right_shift)(*(np.array(4), np.array(1))))
print(f"expected 2, actual {actual}")
sys.exit(bool(np.allclose(actual, 2, rtol=1e-10, atol=0)))
