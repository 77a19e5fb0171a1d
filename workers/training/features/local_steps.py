"""Post-local SGD: `post_localSGD_hook`, `PeriodicModelAverager` and `PostLocalSGDOptimizer`.

A step of the case is `period` updates on the same rows, the last of which ends in the average of the ranks'
parameters. Equal to a loop over ranks, each of which has parameters and an optimizer's state of its own.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
from torch.distributed.algorithms.model_averaging import averagers
from torch.nn.parallel import DistributedDataParallel

from difftest.cases.features.local_steps import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress, require_wrapped


def hooks(options: Options) -> Hooks:
    """The hook is registered ahead of the first step. What is read of gradients is their mean over ranks."""
    own: list[Tensor] = []

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            _register(progress, options)

    def backward(progress: TrainingProgress) -> None:
        for gradient in gradients(progress):
            own.append(gradient.clone())
            distributed.all_reduce(gradient)
            gradient.div_(distributed.get_world_size())

    def update(progress: TrainingProgress) -> None:
        for gradient in gradients(progress):
            gradient.copy_(own.pop(0))

    def after(progress: TrainingProgress) -> None:
        for _ in range(options.period - 1):
            (progress.forward() * progress.scale).backward()
            progress.optimizer.step()
            progress.optimizer.zero_grad()

    return Hooks(
        kind=lambda optimizer: _averaging(optimizer, options.period),
        before=before,
        backward=backward,
        update=update,
        after=after,
    )


def _averaging(optimizer: Any, period: int) -> Any:  # noqa: ANN401  what is called as a class of optimizers is
    """An optimizer after whose every `period`-th step parameters are averaged."""
    from torch.distributed.optim import PostLocalSGDOptimizer  # it takes 0.4 s, and the oracle needs none

    def made(trained: list[Any], **arguments: Any) -> PostLocalSGDOptimizer:  # noqa: ANN401
        if not distributed.is_initialized():
            msg = "local updates need a process group"
            raise UnsupportedError(msg)
        averager = averagers.PeriodicModelAverager(period, warmup_steps=period - 1)
        return PostLocalSGDOptimizer(optimizer(trained, **arguments), averager)

    return made


def equal(options: Options) -> Hooks:
    """All updates of a step come after that of the loop, which has no gradients."""
    states: list[Any] = []

    def inside(progress: TrainingProgress) -> None:
        for parameter in progress.module.parameters():
            parameter.grad = None

    def after(progress: TrainingProgress) -> None:
        states.extend(defaultdict(dict) for _ in range(progress.ranks - len(states)))
        together = progress.ranks if progress.step < options.step else neighbours(options, progress.ranks)
        start = [one.detach().clone() for one in progress.module.parameters()]
        ends = []
        for rank in range(progress.ranks):
            first = rank - rank % together
            _put(progress.module, start)
            progress.optimizer.state = states[rank]
            ends.append(_trained_by(progress, range(first, first + together), options.period))
            states[rank] = progress.optimizer.state
        _put(progress.module, [torch.stack(copies).mean(0) for copies in zip(*ends, strict=True)])

    return Hooks(inside=inside, after=after)


def gradients(progress: TrainingProgress) -> list[Tensor]:
    """Those that there are."""
    return [one.grad for one in progress.module.parameters() if one.grad is not None]


def neighbours(options: Options, ranks: int) -> int:
    """How many of so many ranks average their gradients: none with others where they cannot be divided so."""
    return options.together if ranks % options.together == 0 else 1


def _register(progress: TrainingProgress, options: Options) -> None:
    require_wrapped(progress.module, "local updates")
    assert isinstance(progress.module, DistributedDataParallel)  # noqa: S101  as required
    together = neighbours(options, progress.ranks)
    group = distributed.new_subgroups(together)[0] if together > 1 else None
    state = post_localSGD_hook.PostLocalSGDState(
        None, group, options.step * options.period, post_local_gradient_allreduce=together > 1
    )
    progress.module.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)


def _put(module: nn.Module, values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), values, strict=True):
            parameter.copy_(value)


def _trained_by(progress: TrainingProgress, ranks: range, updates: int) -> list[Tensor]:
    """The parameters after updates by the mean of the gradients of some ranks."""
    for _ in range(updates):
        for rank in ranks:
            (progress.of_rank(rank) * (progress.ranks / len(ranks))).backward()
        progress.optimizer.step()
        progress.optimizer.zero_grad()
    return [one.detach().clone() for one in progress.module.parameters()]
