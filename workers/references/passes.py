"""The forward and the backward pass of a step by their definitions: outputs, loss and gradients.

JAX differentiates the definitions, on the CPU in float64. Where it is not installed numpy computes outputs
and losses alone, and gradients are not compared.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.feature import declared, of
from difftest.cases.features import skipped_block
from difftest.cases.numbers import Batch
from difftest.ground import installed
from workers.references import layers, losses, operators
from workers.references.layers import Array, Context
from workers.references.optimizers import Floats


class Pass(NamedTuple):
    """One part of a batch: its output and loss, and the gradients by parameter; None without JAX."""

    output: Floats
    loss: float
    gradients: Mapping[str, Floats] | None


def lacks(case: Case) -> str:
    """Why a case's outputs have no definition here; empty where they have one."""
    if case.training.loss not in losses.LOSSES:
        return f"no definition of the loss {case.training.loss!r}"
    if of(case, skipped_block.Options):
        return "a block is skipped by a count of forward passes"
    if changing := [one.name for one in case.training_features if declared(one.name).CHANGES_GRADIENTS]:
        return f"no definition of the gradients that {changing[0]} changes"
    return next(filter(None, map(layers.lacks, case.model.layers)), "")


def makers() -> str:
    """What computes: `jax 0.7.1`, or `numpy 2.4.6` alone."""
    name = "jax" if installed.version("jax") else "numpy"
    return f"{name} {installed.version(name)}"


class Program(NamedTuple):
    """The results and the loss of a program of operators, and the gradients of its operands and its results.

    There are no gradients without JAX.
    """

    results: Mapping[str, Floats]
    loss: Floats
    gradients: Mapping[str, Floats]
    of_results: Mapping[str, Floats]


def of_program(case: Case, weights: Mapping[str, Floats]) -> Program:
    """A program's results and its loss by numpy, and gradients by JAX.

    JAX is given all numbers as arguments: XLA:CPU computes with constants while it compiles, and lays them
    out wrong (`difftest/findings/known/constant_beside_empty_product_on_xla.py`).
    """
    with np.errstate(all="ignore"):  # operands may be where an operator is not defined
        results = {name: np.asarray(value) for name, value in operators.results(case, weights, np).items()}
        cotangents = operators.cotangents(case, results)
        loss = np.asarray(operators.loss(results, cotangents))
    if not cotangents or not installed.version("jax"):
        return Program(results, loss, {}, {})
    jax = _jax()

    def differentiated(operands: Mapping[str, Array], zeros: Mapping[str, Array], drawn: Array) -> Array:
        return operators.loss(operators.results(case, operands, jax.numpy, zeros), drawn)

    zeros = {name: np.zeros(value.shape) for name, value in results.items() if value.dtype.kind == "f"}
    gradients = jax.jit(jax.grad(differentiated, argnums=(0, 1)))(dict(weights), zeros, cotangents)
    own, of_results = ({name: np.asarray(value) for name, value in one.items()} for one in gradients)
    return Program(results, loss, own, of_results)


def _jax() -> Any:  # noqa: ANN401  a module
    """JAX on the CPU in float64."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003  JAX's signature
    return jax


@dataclass(frozen=True)
class Passes:
    """The passes of one case, whose definitions JAX compiles once."""

    case: Case

    def of_step(self, weights: Mapping[str, Floats], step: int) -> list[Pass]:
        """The passes over all parts of a step's batch, from the weights before the step."""
        batch, parts = numbers.batch(self.case, step), self.case.training.accumulation
        rows = len(batch.inputs) // parts
        return [self._pass(weights, batch.rows(slice(i * rows, (i + 1) * rows))) for i in range(parts)]

    def _pass(self, weights: Mapping[str, Floats], part: Batch) -> Pass:
        if not installed.version("jax"):
            context = Context(np, np.vectorize(math.erf, otypes=[float]), weights, part.extras, "")
            loss, output = self._loss(context, part.inputs, part.targets, part.count)
            return Pass(np.asarray(output), float(loss), None)
        arrays = dict(weights), part.inputs, part.targets, float(part.count), dict(part.extras)
        (loss, output), gradients = self._with_gradients(*arrays)
        own = {name: np.asarray(gradient) for name, gradient in gradients.items()}
        return Pass(np.asarray(output), float(loss), own)

    def _loss(self, context: Context, inputs: Array, targets: Array, count: float) -> tuple[Array, Array]:
        """The loss and the output of one part."""
        values = inputs
        for index, layer in enumerate(self.case.model.layers):
            values = layers.computed(layer, values, context.at(str(index)))
        return losses.computed(self.case, values, targets, count, context), values

    @cached_property
    def _with_gradients(self) -> Callable[..., Any]:
        """JAX's function of the same, with the gradients of the weights."""
        jax = _jax()
        from jax.scipy.special import erf

        def loss(weights: Array, inputs: Array, targets: Array, count: Array, extras: Array) -> Array:
            return self._loss(Context(jax.numpy, erf, weights, extras, ""), inputs, targets, count)

        compiled: Callable[..., Any] = jax.jit(jax.value_and_grad(loss, has_aux=True))
        return compiled
