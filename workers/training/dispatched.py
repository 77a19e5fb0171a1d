"""The operators that torch dispatches in a run, forward and backward, observed below autograd.

The mode changes no numbers. It is used for the oracle's run in the case's own dtype: what torch dispatches
for a case is the same on every machine, and the runs under test stay as a user has them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from difftest.judge.reached import ALL_LAYERS, Names, Reached

Direction: TypeAlias = Literal["forward", "backward"]

_ATEN = "aten::"


class Dispatched(TorchDispatchMode):
    """Collects names of operators while one of its `observe` contexts is open.

    With `by_layer`, as for a program, the module's children are told apart. A layer is known in the backward
    by the sequence numbers that autograd gave its nodes in the forward.
    """

    def __init__(self, *, by_layer: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names: dict[Direction, dict[str, set[str]]] = {
            "forward": defaultdict(set),
            "backward": defaultdict(set),
        }
        self._by_layer = by_layer
        self._direction: Direction = "forward"
        self._begun: list[tuple[int, str]] = []

    @contextmanager
    def observe(self, direction: Direction, module: nn.Module) -> Iterator[None]:
        """Collects what is dispatched inside, as the forward or the backward of `module`."""
        self._direction = direction
        with ExitStack() as stack:
            if direction == "forward":
                self._begun = [(0, ALL_LAYERS)]
                for name, layer in module.named_children() if self._by_layer else ():
                    stack.callback(layer.register_forward_pre_hook(partial(self._begin, name)).remove)
                    stack.callback(layer.register_forward_hook(partial(self._begin, ALL_LAYERS)).remove)
            stack.enter_context(self)
            yield

    def _begin(self, name: str, *_: object) -> None:
        number = torch._C._autograd._get_sequence_nr()  # noqa: SLF001  no public equivalent
        self._begun.append((number, name))

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  an operator overload, which has no public type in torch
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        name = func._schema.name.removeprefix(_ATEN)  # noqa: SLF001  no public name
        self._names[self._direction][self._layer()].add(name)
        return func(*args, **(kwargs or {}))

    def _layer(self) -> str:
        """The layer whose operator runs; `ALL_LAYERS` for what belongs to none, as the loss."""
        if self._direction == "forward":
            return self._begun[-1][1]
        node: Any = torch._C._current_autograd_node()  # noqa: SLF001  no public equivalent
        number = node._sequence_nr() if node else 0  # noqa: SLF001
        return next((name for start, name in reversed(self._begun) if start <= number), ALL_LAYERS)

    def reached(self) -> Reached:
        """What was collected so far."""
        return Reached(
            forward=_sorted(self._names["forward"]),
            backward=_sorted(self._names["backward"]),
        )


def _sorted(names: Mapping[str, set[str]]) -> dict[str, Names]:
    return {layer: tuple(sorted(names[layer])) for layer in sorted(names)}
