"""Which torch dtype a name in a program stands for, and which one numbers get that name none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""The dtypes as which numbers of Python are read, where they are an operator's result."""


CONVERSIONS = {
    **dict.fromkeys(("Tensor.float", "Tensor.half", "Tensor.bfloat16"), "Tensor.double"),
    **dict.fromkeys(("Tensor.cfloat", "Tensor.chalf"), "Tensor.cdouble"),
}
"""What converts as each method does that names a dtype, and rounds nothing."""


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """While it is entered, `dtype` is torch's default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The dtypes of one run.

    `own` is what `float` stands for. With `wide`, in the oracle, every floating type is float64 and every
    complex type complex128, those that a program names too: the oracle rounds nothing. A program of several
    floating types should therefore have its coarsest as the case's dtype, because the noise floor simulates
    the rounding of that one alone. Integers promoted by torch's default dtype become float64 likewise.
    """

    own: torch.dtype
    wide: bool = False

    @property
    def default(self) -> torch.dtype:
        """Torch's default dtype in this run: what integers are promoted to."""
        return torch.float64 if self.wide else torch.float32

    def conversion(self, call: str) -> str:
        """What to call for `call`: with `wide`, another method where this one converts to fewer digits."""
        return CONVERSIONS.get(call, call) if self.wide else call

    def named(self, name: str) -> torch.dtype:
        """The dtype that `name` stands for; `TypeError` where torch has none of that name."""
        dtype = self.own if name == "float" else getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            msg = f"{name!r} names no dtype of torch"
            raise TypeError(msg)
        if not self.wide:
            return dtype
        if dtype.is_complex:
            return torch.complex128
        return torch.float64 if dtype.is_floating_point else dtype
