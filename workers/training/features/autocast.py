"""`torch.autocast`: operators of a list compute in bfloat16; outputs are float32 again, as trainers do it.

Equal to the same program in float64, which autocast leaves as it is, with the rounding of bfloat16 in the
forward and the backward pass and that of float32 in the update.
"""

from typing import Any

import torch
from torch import nn
from torch.utils import _python_dispatch as modes

from difftest.cases.features.autocast import Options
from workers.training.features import Hooks
from workers.training.perturb import Perturb

NARROW = torch.bfloat16


def hooks(_options: Options) -> Hooks:
    """Around the forward of the whole module."""
    return Hooks(place=_place)


def equal(_options: Options) -> Hooks:
    """The same; a run with simulated rounding rounds more until the update."""
    return Hooks(
        place=_place,
        before=lambda _progress: simulate("bfloat16"),
        update=lambda _progress: simulate("float32"),
    )


def _place(module: nn.Module) -> nn.Module:
    forward = module.forward

    def casting(inputs: torch.Tensor, *others: Any) -> Any:  # noqa: ANN401  the module's
        with torch.autocast(inputs.device.type, NARROW):
            output = forward(inputs, *others)
        return output.float() if output.dtype is NARROW else output

    module.forward = casting
    return module


def simulate(dtype: Any) -> None:  # noqa: ANN401  the name of a dtype
    """Makes a run with simulated rounding round as `dtype` from here on."""
    mode = modes._get_current_dispatch_mode()  # noqa: SLF001  no public name
    if isinstance(mode, Perturb):
        mode.simulate(dtype)
