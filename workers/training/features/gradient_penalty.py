"""A penalty on the slope of the output along the inputs: what is differentiated has a gradient in it.

Equal to the same: there is nothing in it that a wrapper does.
"""

from functools import partial

import torch
from torch import Tensor

from difftest.cases.features.gradient_penalty import Options
from workers.training.features import Hooks, Model


def hooks(options: Options) -> Hooks:
    """Added to the loss of each part."""
    return Hooks(call=partial(call, options.factor))


equal = hooks


def call(factor: float, model: Model, inputs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The output, and `factor` times the sum of the squares of the slope, divided by `count`."""
    output = model(inputs.requires_grad_())
    return output, squares(slope_of(inputs, output)) * (factor / count)


def squares(derivative: Tensor) -> Tensor:
    """The sum of the squares, in at least float32."""
    wide = derivative if derivative.dtype == torch.float64 else derivative.float()
    return wide.square().sum()


def slope_of(inputs: Tensor, output: Tensor) -> Tensor:
    """The gradient of the sum of `output` along `inputs`, which has a gradient itself."""
    (slope,) = torch.autograd.grad(output, inputs, torch.ones_like(output), create_graph=True)
    return slope
