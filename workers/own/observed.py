"""What a user's code does beside its numbers, observed below autograd: what it draws, reads and mixes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

BY_MASK = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
"""The operators whose indices may be a mask. How many elements it chooses is read on the host."""


def _name(func: Any) -> str:  # noqa: ANN401  an operator's overload has no public type
    return str(func._schema.name).removeprefix("aten::")  # noqa: SLF001  no public name


class _Mode(TorchDispatchMode):
    """Passes every operator on, and then looks at it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what an operator returns
        result = func(*args, **(kwargs or {}))
        self.look(func, (args, kwargs or {}), result)
        return result

    def look(self, func: Any, arguments: Any, result: Any) -> None:  # noqa: ANN401
        """An operator has given `result` for its arguments."""
        raise NotImplementedError


class Random(_Mode):
    """The first operator that draws random numbers; empty for none."""

    name = ""

    def look(self, func: Any, arguments: Any, _result: Any) -> None:  # noqa: ANN401
        """Notes an operator that draws from the process's generator."""
        own = arguments[1].get("generator") is not None
        if torch.Tag.nondeterministic_seeded in func.tags and not own and not self.name:
            self.name = _name(func)


class _Following(_Mode):
    """Follows which tensors are given or computed from given ones."""

    def __init__(self, given: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self._given: dict[int, Tensor] = {}
        self.give(*given)

    def give(self, *tensors: Tensor) -> None:
        """These are given too; they are kept, so that their identities are not used again."""
        self._given.update((id(tensor), tensor) for tensor in tensors)

    def follow(self, arguments: Any, result: Any) -> tuple[list[Tensor], list[Tensor]]:  # noqa: ANN401
        """The arguments that are given or computed from given ones, and the others."""
        parts: tuple[list[Tensor], list[Tensor]] = [], []
        for one in _tensors(arguments):
            parts[id(one) not in self._given].append(one)
        if parts[0]:
            self.give(*_tensors(result))
        return parts


def _tensors(tree: Any) -> list[Tensor]:  # noqa: ANN401
    return [one for one in _pytree.tree_leaves(tree) if isinstance(one, Tensor)]


class Reads(_Following):
    """How often values were read on the host, by operator: for a number, or for the size of a result.

    With `given` tensors only what is computed from them counts: an optimizer may count its steps on the host.
    """

    def __init__(self, given: Iterable[Tensor] = ()) -> None:
        super().__init__(given)
        self._counts, self._all = Counter[str](), not self._given

    def look(self, func: Any, arguments: Any, result: Any) -> None:  # noqa: ANN401
        """Counts an operator whose result or its size is not decided by sizes alone."""
        name = _name(func)
        if not self.follow(arguments, result)[0] and not self._all:
            return
        if name in BY_MASK:
            self._counts["nonzero"] += any(
                leaf.dtype in {torch.bool, torch.uint8} for leaf in _indices(arguments)
            )
        elif {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & {*func.tags}:
            self._counts[name] += 1

    @property
    def counts(self) -> Counter[str]:
        """The operators that read values, each with how often."""
        return +self._counts


def _indices(arguments: Any) -> Iterable[Tensor]:  # noqa: ANN401
    positional, named = arguments
    indices = positional[1] if len(positional) > 1 else named.get("indices", ())
    return (one for one in indices if isinstance(one, Tensor))


class Mixes(_Following):
    """Whether an operator takes tensors that the code made of its own accord beside those that it was given.

    Plain DTensor refuses that: the given ones are DTensors, and what is computed from them is. It takes
    tensors of one element.
    """

    mixing = False

    def look(self, _func: Any, arguments: Any, result: Any) -> None:  # noqa: ANN401
        """Notes a mixture."""
        derived, own = self.follow(arguments, result)
        self.mixing = self.mixing or bool(derived and any(one.numel() > 1 for one in own))
