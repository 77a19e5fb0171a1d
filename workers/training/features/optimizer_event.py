"""`set_post_optim_event`: FSDP gathers parameters again when the optimizer's step has ended.

Equal to waiting for the whole device.
"""

import torch
from torch.distributed.fsdp import FSDPModule

from difftest.cases.features.optimizer_event import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(_options: Options) -> Hooks:
    """Recorded after every update."""

    def before(progress: TrainingProgress) -> None:
        if not isinstance(progress.module, FSDPModule):
            msg = "what waits for an event after the update is a module of fully_shard"
            raise UnsupportedError(msg)

    def after(progress: TrainingProgress) -> None:
        assert isinstance(progress.module, FSDPModule)  # noqa: S101  as required
        device = next(progress.module.parameters()).device.type
        event = torch.Event(device)
        if device != "cpu":  # which has no streams to record in
            event.record()
        progress.module.set_post_optim_event(event)

    return Hooks(before=before, after=after)


equal = nothing
