"""How the rows of a batch belong together in a user's model: whether halves give what the whole gives.

Where targets are ignored, ranks have unequal numbers of them. The gradient of the batch is then the sum over
all of them by their number in the whole batch, and not the mean of the ranks' means.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from difftest.cases.layers.own import Buffer, OverRows
from difftest.cases.numbers import IGNORE_INDEX
from difftest.ground.errors import UsageError
from workers.own import results
from workers.own.results import close
from workers.own.trial import NOISE, ROWS, Trial, TrialBatch, gradients

HALVES = (slice(0, ROWS // 2), slice(ROWS // 2, ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What two halves of a batch give.

    `apart`: the outputs of the whole batch. `mean`: the mean of their losses is that of the whole batch.
    `of_targets`: it is so if each counts by the number of its targets that are not ignored. The plain mean of
    their gradients is then `off` by this share of the batch's gradient. `results` are the further tensors
    that the module returns, with what they are over the rows, `kept` its buffers. `left_out` are those that
    hold infinities, or of which rounding in float32 leaves little. `parts_run`: halves are batches by
    themselves, whose outputs do not depend on what another has left in the buffers.
    """

    apart: bool
    mean: bool = False
    of_targets: bool = False
    off: float = 0.0
    results: Mapping[str, OverRows] = field(default_factory=dict)
    kept: Mapping[str, Buffer] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    parts_run: bool = False

    @property
    def add_up(self) -> bool:
        """Whether ranks that have rows of their own can compute what one device computes."""
        return self.apart and (self.mean or self.of_targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialRun:
    """A run of some rows: its output, loss, module with gradients, and everything that it returned."""

    output: Tensor
    loss: Tensor
    module: nn.Module
    results: Mapping[str, Tensor]


def rows_of(trial: Trial) -> Rows:
    """Tries the halves of the trial's batch in float64."""
    batch = _unequal(trial.batch)
    whole = _run(trial, batch, slice(0, ROWS))
    halves = [_half(trial, batch, rows) for rows in HALVES]
    rounded = _run(trial, batch, slice(0, ROWS), torch.float32).results
    further = {place: one for place, one in list(whole.results.items())[1:] if one.numel()}
    clear = {place: one for place, one in further.items() if _is_clear(one, rounded.get(place))}
    kept = results.buffers(
        trial.module, whole.module, [None if half is None else half.module for half in halves]
    )
    left = (
        name for name, one in whole.module.named_buffers() if name not in kept and one.is_floating_point()
    )
    together = _together(batch, whole, halves)
    return replace(
        together,
        results={
            place: results.over_rows(
                one, [None if half is None else half.results.get(place) for half in halves]
            )
            for place, one in clear.items()
        },
        kept=kept,
        parts_run=not together.add_up and _parts_run(trial, batch, whole, halves, kept),
        left_out=(*sorted(further.keys() - clear.keys()), *left),
    )


def _run(trial: Trial, batch: TrialBatch, rows: slice, dtype: torch.dtype = torch.float64) -> _TrialRun:
    output, loss, module = trial.run(dtype, rows, batch)
    return _TrialRun(output=output, loss=loss, module=module, results=dict(trial.results))


def _half(trial: Trial, batch: TrialBatch, rows: slice) -> _TrialRun | None:
    """A run of half of the rows; None where the module takes no such batch."""
    try:
        return _run(trial, batch, rows)
    except UsageError:
        return None


def _parts_run(
    trial: Trial,
    batch: TrialBatch,
    whole: _TrialRun,
    halves: list[_TrialRun | None],
    kept: Mapping[str, Buffer],
) -> bool:
    """Whether halves can be batches of their own."""
    if not all(half is not None and len(half.output) == ROWS // 2 for half in halves):
        return False

    def later() -> nn.Module:
        module = trial.build()
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                if name in kept and kept[name].of_all_rows:
                    buffer.copy_(whole.module.get_buffer(name))
        return module

    return close(_run(replace(trial, build=later), batch, slice(0, ROWS)).output, whole.output)


def _is_clear(exact: Tensor, rounded: Tensor | None) -> bool:
    """Whether a tensor is finite, and float32 leaves something of it to compare."""
    if rounded is None or rounded.shape != exact.shape or not torch.isfinite(exact).all():
        return False
    size, error = (float(one.square().mean().sqrt()) for one in (exact, rounded.double() - exact))
    return error <= NOISE * size


def _together(batch: TrialBatch, whole: _TrialRun, halves: list[_TrialRun | None]) -> Rows:
    """How the rows belong together."""
    parts = [half for half in halves if half is not None]
    if len(parts) < len(halves) or not close(torch.cat([half.output for half in parts]), whole.output):
        return Rows(apart=False)
    losses = torch.stack([half.loss for half in parts])
    if close(losses.mean(), whole.loss):
        return Rows(apart=True, mean=True)
    valid = torch.tensor([_valid(batch.targets[half]) for half in HALVES], dtype=losses.dtype)
    if not close((losses * valid).sum() / valid.sum(), whole.loss):
        return Rows(apart=True)
    gradient = _flat(whole.module)
    off = torch.stack([_flat(half.module) for half in parts]).mean(0) - gradient
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
            return batch.with_targets(targets)
    return batch


def _valid(targets: Tensor) -> int:
    """The number of targets that are not ignored."""
    return targets.numel() if targets.is_floating_point() else int((targets != IGNORE_INDEX).sum())


def _flat(module: nn.Module) -> Tensor:
    """The gradients of a module in one vector."""
    return torch.cat([gradient.flatten() for gradient in gradients(module)])
