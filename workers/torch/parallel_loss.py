"""Cross-entropy of an output whose classes are cut over ranks, by torch's `loss_parallel`."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import functional

from difftest.cases.case import Case
from difftest.cases.numbers import IGNORE_INDEX
from workers.training.class_weights import of_classes, of_targets


def loss_of(case: Case, output: Tensor, targets: Tensor, count: int) -> Tensor:
    """`workers.training.loss.loss_of` in the form that the case's `regions` name.

    The sum over the targets at hand divided by `count`, or their mean times their share of it.
    """
    scores, form = output.float(), case.cut_by.loss
    own = targets.to_local() if isinstance(targets, DTensor) else targets
    weights = of_classes(case, own.new_empty(0, dtype=torch.float32))
    share = float(((own != IGNORE_INDEX) * of_targets(case, own, torch.empty(0))).sum())
    mean = case.cut_by.mean and share > 0
    how: dict[str, Any] = {"weight": weights, "reduction": "mean" if mean else "sum"}
    factor = (share if mean else 1.0) / count
    if form == "log_softmax":
        logs = functional.log_softmax(scores, -1)
        return -(logs * _chosen(scores, own, weights)).sum() / count
    if form == "nll_loss":
        logs = functional.log_softmax(scores.flatten(0, -2), -1)
        return functional.nll_loss(logs, own.flatten(), **how) * factor
    scores, own = _shaped(scores, own, form)
    return functional.cross_entropy(scores, own, **how) * factor


def _shaped(scores: Tensor, targets: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """Scores and targets as a form has them; without a sequence there are rows alone."""
    if form == "rows" or targets.dim() == 1:
        return scores.flatten(0, -2), targets.flatten()
    if form == "images":  # one, of all rows; a view before it takes no gradient with strides
        if scores.requires_grad:
            scores.register_hook(lambda gradient: gradient.contiguous())
        return scores.permute(2, 0, 1).unsqueeze(0), targets.unsqueeze(0)
    return scores.movedim(-1, 1), targets


def _chosen(scores: Tensor, targets: Tensor, weights: Tensor | None) -> DTensor:
    """1, or the weight, at the class of every target that counts, 0 elsewhere; cut as the scores are."""
    assert isinstance(scores, DTensor)  # noqa: S101  its classes are cut
    valid = targets != IGNORE_INDEX
    rows = functional.one_hot(targets * valid, scores.shape[-1]) * valid.unsqueeze(-1)
    rows = rows.to(torch.float32) if weights is None else rows * weights
    return distribute_tensor(rows, scores.device_mesh, scores.placements)
