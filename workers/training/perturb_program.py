"""The simulated rounding of a program, beside that of a model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from difftest.cases.case import DType
from difftest.cases.zeros import EITHER_IN_ATEN
from workers.training.perturb import SIMULATED, WIDE_ROUNDOFF, Magnitudes, Perturb
from workers.training.rounding import Overload, Rounding, operator_name, rounding_in_program, written
from workers.training.rounding.lists import on_each, takes_lists
from workers.training.rounding.sizes import ADDENDS, SIZES_IN_PROGRAMS

SIGN_LEFT_OPEN = EITHER_IN_ATEN | {
    *("upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "upsample_trilinear3d"),
}
"""The operators of ATen whose zeros have no documented sign."""


class PerturbProgram(Perturb):
    """One perturbed run of a program, which simulates more than that of a model.

    The verdicts of models are older and stay what they are. A program adds the rounding of addends, takes a
    sum of exponentials as any operator with intermediate results, and draws fewer numbers. It rounds what
    operators of lists compute, and what operators write that return nothing. Zeros whose sign nobody has
    documented are 0.0 in half of the runs and -0.0 in the others: what depends on it is left undecided.
    """

    def __init__(self, dtype: DType, seed: int) -> None:
        super().__init__(dtype, seed)
        self._zero = -0.0 if seed % 2 else 0.0

    def __torch_dispatch__(
        self,
        func: Overload,
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what an operator returns
        if takes_lists(func):
            with self:
                return on_each(func, args, kwargs or {})
        result = super().__torch_dispatch__(func, _types, args, kwargs)
        if operator_name(func).removesuffix("_") in SIGN_LEFT_OPEN:
            self._set_zeros(result)
        if not func._schema.returns and (kind := self._kind(func)).roundoffs:  # noqa: SLF001  no public name
            for position in sorted(written(func) & {*range(len(args))}):
                held = args[position]
                for tensor in held if isinstance(held, list | tuple) else [held]:
                    self._round(tensor, kind, in_place=True)
        return result

    def _set_zeros(self, result: Any) -> None:  # noqa: ANN401  of one or several results
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.dtype == torch.float64:
                tensor.masked_fill_(tensor == 0, self._zero)

    def _perturbed(self, func: Overload, kind: Rounding, args: Sequence[Any]) -> Sequence[Any]:
        perturbed = list(super()._perturbed(func, kind, args))
        for position, argument in enumerate(args):
            if isinstance(argument, list | tuple):
                in_place = position in written(func)
                perturbed[position] = [
                    self._moved(tensor, kind, in_place=in_place) if isinstance(tensor, Tensor) else tensor
                    for tensor in argument
                ]
        return perturbed

    _sizes = SIZES_IN_PROGRAMS
    _rounds_alike = False

    def _kind(self, func: Overload) -> Rounding:
        return rounding_in_program(func, float64=self._roundoff < WIDE_ROUNDOFF)

    def _addend(self, func: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        size = ADDENDS.get(operator_name(func).removesuffix("_"))
        return size(*args, **kwargs) if size else None

    def _noisy(self, value: Tensor, roundoffs: float = 1.0, sizes: Magnitudes | None = None) -> Tensor:
        """`value` (1 + u), with |u| at most `roundoffs` unit roundoffs, or what flushing takes, up to 1."""
        if value.dtype != torch.float64:
            return self._noisy_complex(value, roundoffs) if value.dtype in SIMULATED else value
        size = sizes.all if sizes else value.abs()
        error = self._flushed / size  # infinite where the value is 0, which stays 0
        most = error.clamp_(roundoffs * self._roundoff, 1.0)
        return value * most.mul_(self._draw(value)).add_(1.0)


@contextmanager
def perturbed(dtype: DType, seed: int, *, program: bool = False) -> Iterator[Perturb]:
    """A context in which every operator computes with the simulated rounding of `dtype`."""
    with (PerturbProgram if program else Perturb)(dtype, seed) as mode:
        yield mode
