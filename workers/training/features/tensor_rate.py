"""A learning rate that is a tensor of one number, so that a captured graph need not be captured anew.

Equal to the number.
"""

from typing import Any

import torch

from difftest.cases.features.tensor_rate import Options
from workers.training.features import Hooks, nothing


def hooks(_options: Options) -> Hooks:
    """The tensor is on the host, as in torch's documentation."""

    def kind(optimizer: Any) -> Any:  # noqa: ANN401  a class, or a function that is called like it
        return lambda trained, *, lr, **others: optimizer(trained, lr=torch.tensor(lr), **others)

    return Hooks(kind=kind)


equal = nothing
