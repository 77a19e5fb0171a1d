"""The operators that torch_xla dispatched in a run, by its counters, and the nodes of the graphs it lowered.

torch_xla counts every call of one of its operators under `xla::NAME`, for the whole process. What rose while
the forward or the backward was traced is what that reached, also where several programs share the process.
Its graphs are printed and not lowered here: a lowering that fails would spoil what follows.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from difftest.judge.reached import ALL_LAYERS, Names, Reached

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.dispatched import Direction

GRAPHS = 2
"""In how many of a run's graphs the kinds of nodes are collected."""

_COUNTER = "xla::"
_SYMBOLIC = "_symint"
"""The end of the counter of an operator whose sizes may be symbols; the operator has the name before it."""

_NODE = re.compile(r"= (?:\([^)]*\)|\S+) (\w+::\w+)\(")


class Counters:
    """Collects names of operators while one of its `observe` contexts is open.

    With `by_layer`, as for a program, the module's children are told apart in the forward.
    """

    def __init__(self, *, by_layer: bool) -> None:
        self._by_layer = by_layer
        self._names: dict[Direction, dict[str, set[str]]] = {
            "forward": defaultdict(set),
            "backward": defaultdict(set),
        }
        self._lowered: set[str] = set()
        self._left = GRAPHS
        self._module: nn.Module | None = None
        self._before: dict[str, int] = {}
        self._layer = ALL_LAYERS

    @contextmanager
    def observe(self, direction: "Direction", module: "nn.Module") -> Iterator[None]:
        """Collects what is dispatched inside, as the forward or the backward of `module`."""
        self._module, self._layer, self._before = module, ALL_LAYERS, _counts()
        with ExitStack() as stack:
            for name, layer in module.named_children() if self._by_layer and direction == "forward" else ():
                stack.callback(layer.register_forward_pre_hook(partial(self._begin, name)).remove)
                stack.callback(layer.register_forward_hook(partial(self._begin, ALL_LAYERS)).remove)
            yield
        self._count(direction)

    def _begin(self, name: str, *_: object) -> None:
        self._count("forward")
        self._layer = name

    def _count(self, direction: "Direction") -> None:
        """Adds the operators that were called since the last count."""
        now = _counts()
        risen = {name for name, count in now.items() if count > self._before.get(name, 0)}
        self._names[direction][self._layer] |= {
            name.removeprefix(_COUNTER).removesuffix(_SYMBOLIC) for name in risen
        }
        self._before = now

    def look(self, tensors: "Sequence[Tensor]") -> None:
        """Collects the kinds of nodes in the graphs of these lazy tensors and of the module's gradients.

        They are printed, and not computed for it. Only the first graphs of a run are: later ones are like
        them.
        """
        import torch_xla

        gradients = (p.grad for p in self._module.parameters()) if self._module else ()
        held = (
            getattr(tensor, "global_tensor", tensor) for tensor in (*tensors, *gradients)
        )  # what DTensors wrap
        lazy = [tensor for tensor in held if tensor is not None and tensor.device.type == "xla"]
        self._left -= 1
        if lazy and self._left >= 0:
            text = torch_xla._XLAC._get_xla_tensors_text(lazy)  # noqa: SLF001  no public equivalent
            self._lowered.update(_NODE.findall(text))

    def reached(self) -> Reached:
        """What was collected so far."""
        return Reached(
            forward=_sorted(self._names["forward"]),
            backward=_sorted(self._names["backward"]),
            lowered=tuple(sorted(self._lowered)),
        )


def _counts() -> dict[str, int]:
    from torch_xla.debug import metrics

    names = [name for name in metrics.counter_names() if name.startswith(_COUNTER)]
    return {name: metrics.counter_value(name) or 0 for name in names}


def _sorted(names: dict[str, set[str]]) -> dict[str, Names]:
    return {layer: tuple(sorted(operators)) for layer, operators in sorted(names.items()) if operators}
