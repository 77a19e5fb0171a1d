"""How the rows of a batch belong together in a user's model: whether halves give what the whole gives.

Where targets are ignored, ranks have unequal numbers of them. The gradient of the batch is then the sum over
all of them by their number in the whole batch, and not the mean of the ranks' means.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from difftest.cases.numbers import IGNORE_INDEX
from difftest.ground.errors import UsageError
from workers.own.trial import ROWS, Trial, TrialBatch, close, gradients

HALVES = (slice(0, ROWS // 2), slice(ROWS // 2, ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What two halves of a batch give.

    `apart`: the outputs of the whole batch. `mean`: the mean of their losses is that of the whole batch.
    `of_targets`: it is so if each counts by the number of its targets that are not ignored. The plain mean of
    their gradients is then `off` by this share of the batch's gradient.
    """

    apart: bool
    mean: bool = False
    of_targets: bool = False
    off: float = 0.0

    @property
    def add_up(self) -> bool:
        """Whether ranks that have rows of their own can compute what one device computes."""
        return self.apart and (self.mean or self.of_targets)


def rows_of(trial: Trial) -> Rows:
    """Tries the halves of the trial's batch in float64."""
    batch = _unequal(trial.batch)
    output, loss, module = trial.run(torch.float64, batch=batch)
    try:
        halves = [trial.run(torch.float64, half, batch) for half in HALVES]
    except UsageError:
        return Rows(apart=False)
    if not close(torch.cat([half[0] for half in halves]), output):
        return Rows(apart=False)
    losses = torch.stack([half[1] for half in halves])
    if close(losses.mean(), loss):
        return Rows(apart=True, mean=True)
    valid = torch.tensor([_valid(batch.targets[half]) for half in HALVES], dtype=losses.dtype)
    if not close((losses * valid).sum() / valid.sum(), loss):
        return Rows(apart=True)
    gradient = _flat(module)
    off = torch.stack([_flat(half[2]) for half in halves]).mean(0) - gradient
    return Rows(apart=True, of_targets=True, off=float(off.norm() / gradient.norm()))


def _unequal(batch: TrialBatch) -> TrialBatch:
    """The batch; where targets are ignored, one with unequal numbers of others in its halves, if possible."""
    if batch.targets.is_floating_point() or not (batch.targets == IGNORE_INDEX).any():
        return batch
    for row in (None, *range(ROWS)):
        targets = batch.targets.clone()
        if row is not None:
            targets[row] = IGNORE_INDEX
        first, second = (_valid(targets[half]) for half in HALVES)
        if first and second and first != second:
            return TrialBatch(batch.inputs, targets)
    return batch


def _valid(targets: Tensor) -> int:
    """The number of targets that are not ignored."""
    return targets.numel() if targets.is_floating_point() else int((targets != IGNORE_INDEX).sum())


def _flat(module: nn.Module) -> Tensor:
    """The gradients of a module in one vector."""
    return torch.cat([gradient.flatten() for gradient in gradients(module)])
