"""`AveragedModel` with an exponential moving average, which is put into the model after the last update.

Equal to the recurrence: the average begins as the weights after the first update, and then keeps `decay` of
itself.
"""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from difftest.cases.features.averaged_weights import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """The averaged model is a copy of the module in a wrapper, as users make it."""
    held: list[AveragedModel] = []

    def after(progress: TrainingProgress) -> None:
        module = _unwrapped(progress.module)
        if not held:
            held.append(AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(options.decay)))
        held[0].update_parameters(module)
        if progress.last:
            _put(module, list(held[0].module.parameters()))

    return Hooks(after=after, leaves_device=True)


def equal(options: Options) -> Hooks:
    """One tensor after another."""
    kept, average = options.decay, list[Tensor]()

    def after(progress: TrainingProgress) -> None:
        weights = [parameter.detach() for parameter in progress.module.parameters()]
        before = average or weights
        average[:] = [kept * old + (1 - kept) * new for old, new in zip(before, weights, strict=True)]
        if progress.last:
            _put(progress.module, average)

    return Hooks(after=after)


def _unwrapped(module: nn.Module) -> nn.Module:
    """The module in `DistributedDataParallel`, which cannot be copied. Nor can `fully_shard`'s."""
    if isinstance(module, FSDPModule):
        msg = "AveragedModel copies the module; what fully_shard returns refuses to be copied"
        raise UnsupportedError(msg)
    return module.module if isinstance(module, nn.parallel.DistributedDataParallel) else module


def _put(module: nn.Module, averages: "list[Tensor] | list[nn.Parameter]") -> None:
    with torch.no_grad():
        for parameter, average in zip(module.parameters(), averages, strict=True):
            parameter.copy_(average)
