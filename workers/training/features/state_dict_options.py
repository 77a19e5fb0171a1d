"""`get_state_dict` and `set_state_dict` with the options that trainers give them, in the middle of a run.

What was read is then all there is: parameters are set to zero and the optimizer forgets its state. Equal to a
run that does not.
"""

from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.utils import _pytree

from difftest.cases.features.state_dict_options import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, TrainingProgress, nothing
from workers.training.features.distributed_checkpoint import is_on_xla

ON_FIRST = StateDictOptions(full_state_dict=True, cpu_offload=True)
"""The first rank alone has the state."""

READ = {
    "full": StateDictOptions(full_state_dict=True),
    "offloaded": StateDictOptions(cpu_offload=True),
    "broadcast": ON_FIRST,
    "sent": ON_FIRST,
    "flattened": StateDictOptions(flatten_optimizer_state_dict=True),
    "whole_flattened": StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=True),
    "loose": StateDictOptions(strict=False),
    "gathered": ON_FIRST,
    "trained": StateDictOptions(ignore_frozen_params=True, strict=False),
}
"""The options with which a state is read."""

SENT = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
LOADED = {form: SENT if read is ON_FIRST else read for form, read in READ.items()}
"""Those with which it is loaded."""

BY_HALVES = ("sent", "gathered")
"""Those loaded by a function for the module and one for the optimizer: the first rank alone has the state."""


def hooks(options: Options) -> Hooks:
    """Before step `step`."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            _reload(progress, options.form)

    return Hooks(before=before, leaves_device=True)


equal = nothing


def _reload(progress: TrainingProgress, form: str) -> None:
    module, optimizer = progress.module, progress.optimizer
    if is_on_xla(module) and READ[form] is ON_FIRST:
        msg = "one process has all devices, so that there is no first rank that sends a state"
        raise UnsupportedError(msg)
    weights, kept = state_of(module, optimizer, form)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad or form != "trained":
                parameter.zero_()
    progress.forget_state()
    if form in BY_HALVES:
        set_model_state_dict(module, weights, options=LOADED[form])
        set_optimizer_state_dict(module, optimizer, kept, options=LOADED[form])
        return
    set_state_dict(
        module,
        optimizer,
        model_state_dict=weights,
        optim_state_dict=kept,
        options=LOADED[form],
    )


def state_of(module: torch.nn.Module, optimizer: torch.optim.Optimizer, form: str) -> tuple[Any, Any]:
    """The state of both, copied: loading it begins with other values in the same tensors."""
    weights, kept = get_state_dict(module, optimizer, options=READ[form])
    copied = _pytree.tree_map_only(torch.Tensor, torch.clone, (weights, kept))
    return copied[0], copied[1]
