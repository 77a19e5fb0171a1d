"""HLO's numbers without XLA are those of StableHLO's reference interpreter, which is of another make."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from installed_packages import needs
from numpy.typing import NDArray
from pass_programs import SCRIPT

from difftest.passes.evaluate import evaluate
from difftest.passes.hlo_text import parse

pytestmark = pytest.mark.slow

PROGRAMS = 20
RELATIVE = 1e-5
"""Both compute in float32, and sum in another order."""


def test_programs_have_the_numbers_of_the_stablehlo_interpreter() -> None:
    needs("jax")
    jax = importlib.import_module("jax")
    (x, w), programs = arguments(), written()
    assert len(programs) == PROGRAMS
    different = {}
    for name, program in programs.items():
        with importlib.import_module("jax.experimental").disable_x64():  # whatever other tests set
            lowered = jax.jit(program, keep_unused=True).lower(x, w)
        module = parse(lowered.compiler_ir("hlo").as_hlo_text())
        (own,) = evaluate(module, [[x], [w]])
        actual = own[0] if isinstance(own, tuple) else own
        expected = interpreted(lowered, x, w)
        if not np.allclose(actual, expected, rtol=RELATIVE, atol=RELATIVE, equal_nan=True):
            different[name] = actual, expected
    assert different == {}


def arguments() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The numbers on which the programs run."""
    draw = np.random.default_rng(0)
    return draw.normal(size=(4, 8)).astype("f"), draw.normal(size=(8, 8)).astype("f")


def written() -> dict[str, Callable[..., Any]]:
    """The programs of the passes' tests, without shardings, which the interpreter does not know."""
    definitions = SCRIPT.partition("x, w = np.random")[0].partition("def matmul")
    names: dict[str, Any] = {"cut": lambda x, *_axes: x}
    for module, name in (("jax", "jax"), ("jax.numpy", "jnp"), ("jax.lax", "lax"), ("numpy", "np")):
        names[name] = importlib.import_module(module)
    before = set(names)
    exec("".join(definitions[1:]), names)  # noqa: S102  this repository's own programs
    hidden = {*before, "__builtins__", "loss"}
    return {name: value for name, value in names.items() if name not in hidden}


def interpreted(lowered: Any, *given: NDArray[np.float32]) -> NDArray[Any]:  # noqa: ANN401  JAX's
    """What StableHLO's reference interpreter gives, which jaxlib brings along."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    module = lowered.compiler_ir("stablehlo")
    with module.context:
        (result,) = stablehlo.eval_module(module, [ir.DenseElementsAttr.get(each) for each in given])
        return np.array(result)
