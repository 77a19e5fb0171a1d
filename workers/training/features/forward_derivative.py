"""A loss with a derivative in it that forward mode makes, beside the output.

Equal to the derivative that two reverse passes make.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from difftest.cases.features.forward_derivative import Options
from workers.training.features import Hooks, Model
from workers.training.features.gradient_penalty import squares

Differentiated: TypeAlias = Callable[[Model, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a model, its inputs and a direction to the output and its derivative along the direction."""


def hooks(options: Options) -> Hooks:
    """By the function of the form."""
    return Hooks(call=partial(call, FORMS[options.form], options.factor))


def equal(options: Options) -> Hooks:
    """By two reverse passes, which use no formula of forward mode."""
    return Hooks(call=partial(call, _by_reverse_mode, options.factor))


def call(
    made: Differentiated, factor: float, model: Model, inputs: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The output, and `factor` times the sum of the squares of the derivative, divided by `count`."""
    output, derivative = made(model, inputs, inputs.relu())
    return output, squares(derivative) * (factor / count)


def _by_function(model: Model, inputs: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    output, derivative = torch.func.jvp(model, (inputs,), (direction,))
    return output, derivative


def _by_dual_numbers(model: Model, inputs: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    with forward_ad.dual_level():
        output, derivative = forward_ad.unpack_dual(model(forward_ad.make_dual(inputs, direction)))
    return output, torch.zeros_like(output) if derivative is None else derivative


def _by_reverse_mode(model: Model, inputs: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the slope along the weights that it is linear in."""
    inputs = inputs.requires_grad_()
    output = model(inputs)
    weights = torch.ones_like(output, requires_grad=True)
    (slope,) = torch.autograd.grad(output, inputs, weights, create_graph=True)
    (derivative,) = torch.autograd.grad(slope, weights, direction, create_graph=True)
    return output, derivative


FORMS: Mapping[str, Differentiated] = {"func": _by_function, "dual": _by_dual_numbers}
