"""Rounding-size noise for a run that shows what rounding alone may do to a training.

Each parameter at the start and after each update, each floating-point input, each output of a module without
children, its gradient and each parameter's gradient is multiplied with 1 + u or 1 - u, element by element,
where u is some units in the last place of its dtype. Copies of a tensor on several ranks get the same noise.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from workers.runs.hooks import Mode, leaves, named


class Noise:
    """The noise of a run. `units` is its size in the last place, `where` gives step and micro-batch."""

    def __init__(self, units: float, seed: int, where: Callable[[], tuple[int, int, int]]) -> None:
        self._units, self._seed, self._where, self._mode = units, seed, where, Mode()

    def hook(self, model: nn.Module) -> list[Any]:
        """Puts the noise on a model's inputs and outputs; returns the handles of the hooks."""
        handles: list[Any] = [model.register_forward_pre_hook(self._inputs, prepend=True, with_kwargs=True)]
        for path, module in named(model).items():
            if not next(module.children(), None):
                handles.append(module.register_forward_hook(partial(self._output, path), prepend=True))
        return handles

    def on(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with noise, in its dtype; integers stay as they are."""
        if not tensor.dtype.is_floating_point or not tensor.numel():
            return tensor
        return tensor + tensor.detach() * self._signs(name, tensor)

    def on_parameters(self, kind: str, tensors: Sequence[tuple[str, Tensor]]) -> None:
        """Puts noise on parameters or gradients, in place."""
        with torch.no_grad():
            for name, tensor in tensors:
                local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
                if local.dtype.is_floating_point and local.numel():
                    local.add_(local * self._signs(f"{kind} {name}", local))

    def _signs(self, name: str, tensor: Tensor) -> Tensor:
        where = "/".join(map(str, (self._seed, *self._where(), name)))
        generator = torch.Generator().manual_seed(zlib.crc32(where.encode()))
        drawn = torch.randint(0, 2, tuple(tensor.shape), generator=generator, dtype=torch.int8)
        size = self._units * torch.finfo(tensor.dtype).eps
        return ((2 * drawn - 1).to(torch.float32) * size).to(tensor.dtype).to(tensor.device)

    def _inputs(
        self, module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if torch.compiler.is_compiling() or not self._mode.is_of(module):
            return None
        noisy = tuple(self._input(str(index), value) for index, value in enumerate(arguments))
        return noisy, {name: self._input(name, value) for name, value in keywords.items()}

    def _input(self, name: str, value: object) -> object:
        plain = isinstance(value, Tensor) and not hasattr(value, "to_local")
        return self.on(f"input {name}", value) if plain else value  # type: ignore[arg-type]

    def _output(self, path: str, module: nn.Module, _arguments: object, output: object) -> object:
        tensors = [tensor for _, tensor in leaves(output)]
        if torch.compiler.is_compiling() or not self._mode.is_of(module) or len(tensors) != 1:
            return None
        (tensor,) = tensors
        if tensor is not output or hasattr(tensor, "to_local") or not tensor.dtype.is_floating_point:
            return None
        noisy = self.on(f"output {path}", tensor)
        if noisy.requires_grad:
            noisy.register_hook(partial(self.on, f"output gradient {path}"))
        return noisy
