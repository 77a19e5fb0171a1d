"""The user's code in the oracle, where every floating-point type that it names is float64.

Many models compute a norm or a rotation in float32 whatever their type. The oracle rounds nothing, so it
computes that in float64 too, and a tensor that the code makes of its own accord.

Code that casts to a half type, as some optimizers and every region of `torch.autocast` do, rounds more than
its case. What follows from such a cast is float64 too, and is noted as narrow, so that a run with simulated
rounding rounds it as the code does (`workers.training.perturb`).
"""

import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from workers.own.decompositions import DECOMPOSITIONS

WIDER = {
    **dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float64),
    **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
}
"""What the oracle takes for the types that code names."""

Narrow: TypeAlias = Literal["bfloat16", "float16"]

NARROW: Mapping[torch.dtype, Narrow] = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
"""The types to which code casts in order to compute with less precision, the coarsest first."""

CASTING_DEVICES = ("cpu", "cuda", "xla")
"""The types of devices for which the user's code may enter `torch.autocast`."""

_PRODUCTS = ("matmul", "mm", "bmm", "addmm", "baddbmm")
_LAYERS = ("linear", "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d")
_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")

CAST_FIRST = frozenset(
    {
        *(getattr(holder, name) for holder in (torch, Tensor) for name in _PRODUCTS),
        *(getattr(functional, name) for name in (*_LAYERS, *_TRANSPOSED)),
        *(torch.einsum, Tensor.__matmul__, Tensor.__rmatmul__),
    }
)
"""The functions whose floating-point arguments autocast casts first, of those in torch's documentation.

Arguments in float64 it leaves as they are.
"""

_noted: MutableMapping[Tensor, Narrow] = WeakTensorKeyDictionary()
"""The tensors of this process, the oracle's, that follow from a cast to a half type, each with that type."""

_here = threading.local()
"""The narrow type of the operator that this thread runs."""


def narrow() -> Narrow | None:
    """The half type in which the user's code computes the operator that is running; None outside of one."""
    running: Narrow | None = getattr(_here, "narrow", None)
    return running


class _Wide(TorchDispatchMode):
    """Replaces the types in the arguments of every operator, and notes which results would be narrow.

    `decomposed` are the operators that were computed in other ones, for want of a float64 kernel.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.decomposed: set[str] = set()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  an operator's overload has no public type
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what an operator returns
        named = kwargs or {}
        coarse = self._coarse(func, args, named)
        computed = DECOMPOSITIONS.get(func.overloadpacket, func)
        if computed is not func:
            self.decomposed.add(func.overloadpacket.__name__)
        with _computing(coarse):
            result = computed(*map(_wider, args), **{name: _wider(one) for name, one in named.items()})
        if coarse and not func._schema.is_mutable:  # noqa: SLF001  no public name
            for one in result if isinstance(result, tuple | list) else [result]:
                if isinstance(one, Tensor) and one.is_floating_point():
                    _noted[one] = coarse
        return result

    @staticmethod
    def _coarse(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Narrow | None:  # noqa: ANN401
        """The half type that the results would have: the one that is named, or that of all operands."""
        dtypes = [one for one in (*args, *named.values()) if isinstance(one, torch.dtype)]
        if dtypes:
            return NARROW.get(dtypes[-1])
        if not len(_noted):
            return None
        leaves = [one for one in _pytree.tree_leaves((args, named)) if isinstance(one, Tensor)]
        if func._schema.is_mutable:  # noqa: SLF001
            leaves = leaves[:1]
        floats = [one for one in leaves if one.is_floating_point()]
        floats = [one for one in floats if one.dim()] or floats  # a number does not promote a tensor
        types = {_noted.get(one) for one in floats}
        return None if not types or None in types else next(one for one in NARROW.values() if one in types)


class _Casts(TorchFunctionMode):
    """Casts what `torch.autocast` would cast if it were not float64."""

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401  any function of torch
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        named = dict(kwargs or {})
        if func in CAST_FIRST and (device := next(filter(torch.is_autocast_enabled, CASTING_DEVICES), "")):
            dtype = torch.get_autocast_dtype(device)
            args, named = _pytree.tree_map_only(
                Tensor,
                lambda one: one.to(dtype) if one.is_floating_point() else one,
                (tuple(args), named),
            )
        return func(*args, **named)


@contextmanager
def _computing(dtype: Narrow | None) -> Iterator[None]:
    before, _here.narrow = narrow(), dtype
    try:
        yield
    finally:
        _here.narrow = before


def _wider(argument: Any) -> Any:  # noqa: ANN401  any argument of an operator
    return WIDER.get(argument, argument) if isinstance(argument, torch.dtype) else argument


@contextmanager
def wide() -> Iterator[set[str]]:
    """A context in which code that names float32, or makes tensors of the default type, gets float64.

    It gives the names of the operators that are computed by decompositions inside.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide() as mode, _Casts():
            yield mode.decomposed
    finally:
        torch.set_default_dtype(before)
