"""The usual forms that the training loop takes where a case's `Spelling` says so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from difftest.cases.case import Case
from difftest.cases.numbers import IGNORE_INDEX
from difftest.cases.options import Spelling
from workers.training.class_weights import of_classes
from workers.training.operators import Operators

DIFFERENT_NUMBERS = 8
"""Powers of two, with which a product and a quotient round nothing. 1 is not among them.

torch_xla makes constants of 0 and 1, so that a program that meets one of them anew compiles anew.
"""


def operators(own: Operators, spelling: Spelling) -> Operators:
    """A backend's `own` operators, with torch's checkpoint function where the program uses that."""
    return replace(own, recompute=recompute) if spelling.torch_checkpoint else own


def recompute(
    block: Callable[..., Tensor],
    *inputs: Any,  # noqa: ANN401  tensors, and mappings of them
) -> Tensor:
    """`block(*inputs)`, computed again in the backward pass, as torch's documentation recommends it."""
    return cast("Tensor", checkpoint(block, *inputs, use_reentrant=False))


def loss_of(case: Case, output: Tensor, targets: Tensor, count: int) -> Tensor:
    """`workers.training.loss.loss_of` by torch's own function for the loss.

    It is the mean over the values at hand times their share of `count`, as 1 where that is all of them. Where
    targets are ignored it is the sum, because the mean is over the others.
    """
    output = output if output.dtype == torch.float64 else output.float()
    if case.training.loss == "mse":
        mean, values = functional.mse_loss(output, targets.to(output.dtype)), output.numel()
    else:
        rows, classes = output.flatten(0, -2), targets.flatten()
        if case.data.ignored or case.model.own or case.cut_by.weighted:
            total = functional.cross_entropy(
                rows, classes, of_classes(case, rows), ignore_index=IGNORE_INDEX, reduction="sum"
            )
            return total / count
        mean, values = functional.cross_entropy(rows, classes), targets.numel()
    return mean if values == count else mean * (values / count)


def with_changing_number(loss: Tensor, step: int) -> Tensor:
    """The same loss, multiplied and divided by a number of the step."""
    number = 2.0 ** (1 + step % DIFFERENT_NUMBERS)
    return loss * number / number


def host_backward() -> None:
    """A backward pass on the host."""
    torch.ones(2, requires_grad=True).sum().backward()
