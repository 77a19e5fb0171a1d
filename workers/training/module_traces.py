"""What every module gives, and the gradient that comes back to it, beside what a run reads anyway: for findings alone.

An ordinary run has no hooks. With `DIFFTEST_TRACE_MODULES=1` they are on the placed module, so that a wrapper's own hooks come first, and
what they keep lives until it is read: under XLA the graph has more results than a user's, and may be compiled otherwise.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn

from difftest.findings.localise import MODULE, VARIABLE
from difftest.judge.outcome import Sharded, Stage

Tensors = dict[tuple[Stage, str], Tensor]


class Watch:
    """Keeps one tensor a module and direction: of a module that is computed again, the first."""

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
        """Returns nothing: a hook's result would replace the gradient."""
        self._kept.setdefault((Stage.BACKWARD, name), gradient.detach())

    def read(
        self, read: Callable[[Tensor], Sharded], part: int, scale: float
    ) -> dict[tuple[Stage, str], Sharded]:
        """What was kept since it was last read, in the order that it came to be; gradients are those of the loss before `scale`."""
        kept, self._kept = self._kept, {}
        more = f" part {part}" if part else ""
        return {
            (at, name + more): read(t / scale if at is Stage.BACKWARD and scale != 1.0 else t)
            for (at, name), t in kept.items()
        }


def _inner(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The model's modules as `module 1.0`, without wrappers and the whole."""
    for name, inner in module.named_modules():
        path = name.removeprefix("module").removeprefix("_orig_module").removeprefix(".")
        if path:
            yield MODULE + path, inner
