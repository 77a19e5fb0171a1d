"""A penalty on the slope of the output along the inputs: what is differentiated has a gradient in it.

Equal to the same: there is nothing in it that a wrapper does.
"""

from functools import partial

import torch
from torch import Tensor

from difftest.cases.features.gradient_penalty import Options
from workers.training.features import Hooks


def hooks(options: Options) -> Hooks:
    """Added to the loss of each part."""
    return Hooks(penalty=partial(penalty, options.factor))


equal = hooks


def penalty(factor: float, inputs: Tensor, output: Tensor, count: int) -> Tensor:
    """`factor` times the sum of the squares of the slope, divided by the `count` that divides the loss."""
    slope = slope_of(inputs, output)
    slope = slope if slope.dtype == torch.float64 else slope.float()
    return slope.square().sum() * (factor / count)


def slope_of(inputs: Tensor, output: Tensor) -> Tensor:
    """The gradient of the sum of `output` along `inputs`, which has a gradient itself."""
    (slope,) = torch.autograd.grad(output, inputs, torch.ones_like(output), create_graph=True)
    return slope
