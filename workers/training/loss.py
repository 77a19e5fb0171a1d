"""The loss of a case, of operators that every backend has."""

import torch
from torch import Tensor
from torch.nn import functional

from difftest.cases.case import Case
from difftest.cases.numbers import IGNORE_INDEX
from workers.training.class_weights import of_targets


def loss_of(case: Case, output: Tensor, targets: Tensor, count: int) -> Tensor:
    """The summed loss divided by `count`, in float32, or float64 where the output is.

    It uses only operators that DTensor has sharding rules for (there is none for `mse_loss`).
    """
    output = output if output.dtype == torch.float64 else output.float()
    if case.training.loss == "mse":
        return ((output - targets.to(output.dtype)) ** 2).sum() / count
    valid = targets != IGNORE_INDEX
    logs = functional.log_softmax(output, dim=-1)
    chosen = logs.gather(-1, (targets * valid).unsqueeze(-1)).squeeze(-1)
    return -(chosen * valid * of_targets(case, targets, chosen)).sum() / count
