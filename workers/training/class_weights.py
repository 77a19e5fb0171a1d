"""The weights of classes in cross-entropy, where a case has some: 1, 1.5, 2, 1, 1.5 and so on."""

import torch
from torch import Tensor

from difftest.cases.case import Case


def of_classes(case: Case, scores: Tensor) -> Tensor | None:
    """The weight of every class, as torch's functions take it; None where all have the same."""
    if not case.cut_by.weighted:
        return None
    classes = torch.arange(case.model.outputs, device=scores.device)
    return (1 + classes % 3 / 2).to(scores.dtype)


def of_targets(case: Case, targets: Tensor, like: Tensor) -> Tensor | float:
    """The weight of every target's class, by few operators; what an ignored target has does not count."""
    return (1 + targets % 3 / 2).to(like.dtype) if case.cut_by.weighted else 1.0
