"""`Join`: ranks that have no batch any more answer the collectives of those that have.

After the last step some ranks have further batches, here that step's again. Equal to updates by the sum over
the ranks that have one.
"""

from typing import Any

import torch
from torch import distributed
from torch.distributed.algorithms import join

from difftest.cases.features.uneven_inputs import Options
from workers.training.features import Hooks, TrainingProgress, require_wrapped


def hooks(options: Options) -> Hooks:
    """In the context of the module, and of an optimizer that communicates."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            require_wrapped(progress.module, "uneven inputs")

    def after(progress: TrainingProgress) -> None:
        if not progress.last:
            return
        progress.keep_buffers()  # `Join` gives all ranks those of the rank that was the last to have a batch
        own = distributed.get_rank() in having(options, progress.ranks)
        with join.Join(_joinable(progress), divide_by_initial_world_size=not options.shrinking):
            for _ in range(options.batches if own else 0):
                (progress.forward() * progress.scale).backward()
                progress.optimizer.step()
                progress.optimizer.zero_grad()

    return Hooks(before=before, after=after)


def equal(options: Options) -> Hooks:
    """The loss of these ranks' rows, more of it where it is divided by fewer."""

    def after(progress: TrainingProgress) -> None:
        ranks = having(options, progress.ranks)
        factor = progress.ranks / len(ranks) if options.shrinking else 1.0
        for _ in range(options.batches if progress.last else 0):
            (torch.stack([progress.of_rank(rank) for rank in ranks]).sum() * factor).backward()
            progress.optimizer.step()
            progress.optimizer.zero_grad()

    return Hooks(after=after)


def having(options: Options, ranks: int) -> range:
    """The ranks that have further batches."""
    count = min(options.ranks, ranks)
    return range(count) if options.first else range(ranks - count, ranks)


def _joinable(progress: TrainingProgress) -> list[Any]:
    """The module, and an optimizer that communicates."""
    both = (progress.module, progress.optimizer)
    return [one for one in both if isinstance(one, join.Joinable)]
