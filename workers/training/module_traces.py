"""Traces of every module's output and of what code between modules makes, for findings alone.

An ordinary run reads less and has no hooks. With `DIFFTEST_TRACE_MODULES=1` they are on the placed module, so
that a wrapper's own hooks come first. Of every tensor its gradient is kept too. An input is kept where no
module gave it: then code of the module around has made it, and may be wrong. The tensors live until they are
read. Under XLA the graph then has more results than a user's, and may be compiled differently.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from difftest.campaign.localise import INPUT, MODULE, VARIABLE
from difftest.judge.outcome import Sharded
from difftest.judge.stage import Stage
from workers.own.results import tensors
from workers.training.wrapped_names import bare

Tensors = dict[tuple[Stage, str], Tensor]


class ModuleWatch:
    """Keeps two tensors per module and direction; of a module that is computed again, the first."""

    def __init__(self, module: nn.Module) -> None:
        self._kept: Tensors = {}
        self._held: dict[int, tuple[Tensor, list[str]]] = {}
        """The tensors of this pass by `id`, which keeps them alive, with their names, innermost first."""
        if os.environ.get(VARIABLE, "") == "1":
            for name, inner in _named(module):
                inner.register_forward_pre_hook(partial(self._keep_input, name), with_kwargs=True)
                inner.register_forward_hook(partial(self._keep_output, name))

    def _keep_input(
        self, name: str, _module: nn.Module, inputs: Sequence[object], keywords: Mapping[str, object]
    ) -> None:
        """Keeps the first input, unless a module gave it or was given it. The model's own is the batch's."""
        tensor = _first_floats((inputs, keywords))
        if tensor is None or id(tensor) in self._held:
            return
        if name:
            self._keep(name + INPUT, tensor)
        else:
            self._held[id(tensor)] = tensor, []

    def _keep_output(self, name: str, _module: nn.Module, _inputs: object, output: object) -> None:
        tensor = _first_floats(output)
        if tensor is not None and name:
            self._keep(name, tensor)

    def _keep(self, name: str, tensor: Tensor) -> None:
        self._kept.setdefault((Stage.FORWARD, name), tensor.detach())
        _, names = self._held.setdefault(id(tensor), (tensor, []))
        if not names and tensor.requires_grad:
            tensor.register_hook(partial(self._keep_gradient, names))
        names.append(name)

    def _keep_gradient(self, names: Sequence[str], gradient: Tensor) -> None:
        """Keeps a gradient. Returns nothing, since a hook's result would replace the gradient.

        Of modules that give the same tensor the outermost comes first, as it does in the backward pass.
        """
        for name in reversed(names):
            self._kept.setdefault((Stage.BACKWARD, name), gradient.detach())

    def take(self) -> Tensors:
        """What was kept since the last call, in the order of its computation."""
        kept, self._kept = self._kept, {}
        self._held.clear()
        return kept


def read(
    kept: Tensors, reader: Callable[[Tensor], Sharded], part: int, scale: float
) -> dict[tuple[Stage, str], Sharded]:
    """The pieces of what a `Watch` kept.

    `part` is the index of the accumulation part, and part of the names where it is not 0. Gradients are
    those of the loss before it was multiplied by `scale`.
    """
    suffix = f" part {part}" if part else ""
    return {
        (stage, name + suffix): reader(t / scale if stage is Stage.BACKWARD and scale != 1.0 else t)
        for (stage, name), t in kept.items()
    }


def joined(each: Sequence[Tensors]) -> Tensors:
    """The tensors of ranks whose rows are batches of their own, one rank's rows behind the other's."""
    first, *others = each
    return {
        key: torch.cat([tensor, *(one[key] for one in others)])
        for key, tensor in first.items()
        if all(key in one and one[key].shape[1:] == tensor.shape[1:] for one in others)
    }


def _named(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The model's modules, named like `module 1.0`; the model itself and wrappers have an empty name."""
    for name, inner in module.named_modules():
        path = bare(name)
        yield MODULE + path if path else "", inner


def _first_floats(output: object) -> Tensor | None:
    """The first floating-point tensor in what a module takes or returns, or None.

    A number has no rows and is left out, such as the loss that comes before the outputs of a model.
    """
    floats = (tensor for _, tensor in tensors(output) if tensor.is_floating_point())
    return next((tensor for tensor in floats if tensor.dim()), None)
