"""The dtypes in which the ranks add up parameters' gradients, noted while they do.

The wrappers that take a dtype for it, as FSDP's mixed precision, add up flat buffers, and the gradients of
biases and norms over the axis of tensor parallelism: tensors of one dim. Activations have more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from workers.training.dispatched import Direction

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


class Reductions(TorchDispatchMode):
    """Counts them by dtype while one of its `observe` contexts is open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counted = Counter[str]()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  an operator
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  the operator's result
        """Lets DTensor take its operators apart first, and runs every other as it is."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        if func.namespace in NAMESPACES and "reduce" in func.__name__ and _ranks(args) > 1:
            tensors = args[0] if isinstance(args[0], list) else [args[0]]
            flat = [one for one in tensors if isinstance(one, torch.Tensor) and one.dim() == 1]
            self.counted.update(str(one.dtype).removeprefix("torch.") for one in flat)
        return func(*args, **(kwargs or {}))

    @contextmanager
    def observe(self, direction: Direction, _module: nn.Module) -> Iterator[None]:
        """Counts inside a backward pass."""
        if direction != "backward":
            yield
            return
        with self:
            yield


def _ranks(args: Iterable[object]) -> int:
    """The size of the group among a collective's arguments, which functional ones give by name."""
    for argument in args:
        if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in str(argument._type()):  # noqa: SLF001  no public name
            return distributed.ProcessGroup.unbox(argument).size()
    names = [argument for argument in args if isinstance(argument, str)]
    return _resolve_process_group(names[-1]).size() if names else 0
