"""torch_xla's `ZeroRedundancyOptimizer`, in place of torch's.

Its step reduces each replica's own gradients into shards, clips and steps these, and gathers the weights.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.features.sharded_optimizer import Options
from workers.training.features import Hooks, TrainingProgress
from workers.xla import pinning


def hooks(case: Case, options: Options) -> Hooks:
    """Shards are of the weights at the first step; the dtype of the optimizer is the case's.

    What is read of gradients is their mean, as the backend reduces it, of which the optimizer gets nothing.
    """
    own: list[tuple[nn.Parameter, Tensor | None]] = []

    def kind(optimizer: Any) -> Any:  # noqa: ANN401  a class, or a function that is called like it
        from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

        return partial(
            ZeroRedundancyOptimizer,
            optimizer_class=optimizer,
            optimizer_dtype=getattr(torch, case.dtype),
            grad_clipping=case.training.clip_norm is not None,
            max_norm=case.training.clip_norm,
            pin_layout=pinning.pinned(case),
            lazy_init=True,
            bucket_cap_mb_all_gather=options.gathered_bucket,
            bucket_cap_mb_reduce_scatter=options.reduced_bucket,
            use_grad_acc_hook=options.accumulation_hook,
        )

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            optimizer: Any = progress.optimizer
            optimizer.init_zero()

    def backward(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            own.append((parameter, parameter.grad))
            gradient = getattr(parameter, "main_grad", parameter.grad)  # where a hook adds it up
            parameter.grad = None if gradient is None else gradient.clone()

    def update(_progress: TrainingProgress) -> None:
        for parameter, gradient in own:
            parameter.grad = gradient
        own.clear()

    return Hooks(kind=kind, before=before, backward=backward, update=update)
