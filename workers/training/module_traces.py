"""Traces of every module's output and of the gradient that comes back to it, for findings alone.

An ordinary run reads less and has no hooks. With `DIFFTEST_TRACE_MODULES=1` they are on the placed module, so
that a wrapper's own hooks come first. The tensors live until they are read. Under XLA the graph then has more
results than a user's, and may be compiled differently.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn

from difftest.findings.localise import MODULE, VARIABLE
from difftest.judge.outcome import Sharded
from difftest.judge.stage import Stage

Tensors = dict[tuple[Stage, str], Tensor]


class Watch:
    """Keeps one tensor per module and direction; of a module that is computed again, the first."""

    def __init__(self, module: nn.Module) -> None:
        self._kept: Tensors = {}
        if os.environ.get(VARIABLE, "") == "1":
            for name, inner in _inner(module):
                inner.register_forward_hook(partial(self._keep, name))

    def _keep(self, name: str, _module: nn.Module, _inputs: object, output: object) -> None:
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        self._kept.setdefault((Stage.FORWARD, name), output.detach())
        if output.requires_grad:
            output.register_hook(partial(self._keep_gradient, name))

    def _keep_gradient(self, name: str, gradient: Tensor) -> None:
        """Keeps a gradient. Returns nothing, since a hook's result would replace the gradient."""
        self._kept.setdefault((Stage.BACKWARD, name), gradient.detach())

    def read(
        self, read: Callable[[Tensor], Sharded], part: int, scale: float
    ) -> dict[tuple[Stage, str], Sharded]:
        """The pieces of what was kept since the last call, in the order of its computation.

        `part` is the index of the accumulation part, and part of the names where it is not 0. Gradients are
        those of the loss before it was multiplied by `scale`.
        """
        kept, self._kept = self._kept, {}
        suffix = f" part {part}" if part else ""
        return {
            (stage, name + suffix): read(t / scale if stage is Stage.BACKWARD and scale != 1.0 else t)
            for (stage, name), t in kept.items()
        }


def _inner(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The model's modules, named like `module 1.0`, without wrappers and without the model itself."""
    for name, inner in module.named_modules():
        path = name.removeprefix("module").removeprefix("_orig_module").removeprefix(".")
        if path:
            yield MODULE + path, inner
