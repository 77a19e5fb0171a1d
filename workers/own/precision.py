"""The user's code in the oracle, where every floating-point type that it names is float64.

Many models compute a norm or a rotation in float32 whatever their type. The oracle rounds nothing, so it
computes that in float64 too, and a tensor that the code makes of its own accord.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WIDER = {
    **dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float64),
    **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
}
"""What the oracle takes for the types that code names."""


class _Wide(TorchDispatchMode):
    """Replaces the types in the arguments of every operator."""

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  an operator's overload has no public type
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what an operator returns
        return func(*map(_wider, args), **{name: _wider(one) for name, one in (kwargs or {}).items()})


def _wider(argument: Any) -> Any:  # noqa: ANN401  any argument of an operator
    return WIDER.get(argument, argument) if isinstance(argument, torch.dtype) else argument


@contextmanager
def wide() -> Iterator[None]:
    """A context in which code that names float32, or makes tensors of the default type, gets float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(before)
