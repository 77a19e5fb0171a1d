"""`torch.autocast`: operators of a list compute in bfloat16; outputs are float32 again, as trainers do it.

Equal to the same program in float64, which autocast leaves as it is, with the rounding of bfloat16 in the
forward and the backward pass and that of float32 in the update.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils import _python_dispatch as modes
from torch.utils._pytree import tree_map_only

from difftest.cases.features.autocast import Options
from workers.training.features import Hooks
from workers.training.forwards import replace_forward
from workers.training.perturb import Perturb

NARROW = torch.bfloat16

Forward: TypeAlias = Callable[..., Any]


def hooks(_options: Options) -> Hooks:
    """Around the forward of the whole module."""
    return narrowed(_under_autocast)


def equal(_options: Options) -> Hooks:
    """The same; a run with simulated rounding rounds more until the update."""
    return simulated(narrowed(_under_autocast))


def narrowed(around: Callable[[nn.Module], Forward]) -> Hooks:
    """Puts a forward that computes in bfloat16 in the place of the module's; outputs are float32 again."""

    def place(module: nn.Module) -> nn.Module:
        forward = around(module)

        def casting(*inputs: Any) -> Any:  # noqa: ANN401  the module's
            return wide_again(forward(*inputs))

        replace_forward(module, casting)
        return module

    return Hooks(place=place)


def wide_again(outputs: Any) -> Any:  # noqa: ANN401  the module's
    """The outputs of a module, in whatever tuples and dicts, with those in bfloat16 in float32."""

    def wide(output: torch.Tensor) -> torch.Tensor:
        return output.float() if output.dtype is NARROW else output

    return tree_map_only(torch.Tensor, wide, outputs)


def simulated(narrow: Hooks) -> Hooks:
    """The same, where a run with simulated rounding rounds as bfloat16 until the update."""
    return replace(
        narrow,
        before=lambda _progress: simulate("bfloat16"),
        update=lambda _progress: simulate("float32"),
    )


def _under_autocast(module: nn.Module) -> Forward:
    forward = module.forward

    def casting(inputs: torch.Tensor, *others: Any) -> Any:  # noqa: ANN401  the module's
        with torch.autocast(inputs.device.type, NARROW):
            return forward(inputs, *others)

    return casting


@contextmanager
def simulated_as(dtype: Any) -> Iterator[None]:  # noqa: ANN401  the name of a dtype
    """A context in which a run with simulated rounding rounds as `dtype`, where that rounds more."""
    mode = modes._get_current_dispatch_mode()  # noqa: SLF001  no public name
    with mode.narrowed(dtype) if isinstance(mode, Perturb) else nullcontext():
        yield


def simulate(dtype: Any) -> None:  # noqa: ANN401  the name of a dtype
    """Makes a run with simulated rounding round as `dtype` from here on."""
    mode = modes._get_current_dispatch_mode()  # noqa: SLF001  no public name
    if isinstance(mode, Perturb):
        mode.simulate(dtype)
