"""Monte Carlo arithmetic on the oracle, which simulates the rounding of the dtype under test.

Every floating-point result is multiplied by 1 + u, with |u| at most the unit roundoff of that dtype. The
spread of the perturbed runs *is* the rounding noise of the case, amplified through depth, steps and optimizer
as rounding itself would be (D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997; Verificarlo does the
same to compiled code). What else an operator does, such as to round its inputs, `workers.training.rounding`
says.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from difftest.cases.case import DType
from workers.own.precision import narrow
from workers.training.rounding import (
    CLASSES,
    Overload,
    Rounding,
    operator_name,
    rounding,
    written,
)
from workers.training.rounding.partial_sums import partial_sums
from workers.training.rounding.products import place
from workers.training.rounding.shared import shared_errors
from workers.training.rounding.sizes import SIZES

WIDE_ROUNDOFF = torch.finfo(torch.float32).eps / 2
"""The unit roundoff of float32."""

FLUSHED = {
    "float64": torch.finfo(torch.float64).tiny,
    "float32": torch.finfo(torch.float32).tiny,
    "bfloat16": torch.finfo(torch.bfloat16).tiny,
    "float16": 2.0**-25,
}
"""The absolute error of a result near zero, by dtype.

XLA on CPU flushes subnormals of float32 and bfloat16 to zero; for float16 it is half the least subnormal.
"""

BEYOND_FLUSHING = 2.0**60
"""A float64 this many times as large as an error of flushing does not change when the error is added."""

NEAR_A_MASK = 2.0**-10
"""How near to a mask a magnitude is, as a share of it, where something small was added to the mask."""

CASTS = frozenset({"_to_copy", "copy", "copy_"})
"""The operators that round where the user's code casts to a half type (`workers.own.precision`)."""

ERRORS = 2**16
"""How many errors a run has drawn for what is rounded alike."""

SIGNLESS = 2**63 - 1
"""The bits of a float64 but for its sign."""

SIMULATED = (torch.float64, torch.complex128)
"""The dtypes of the oracle's numbers. Others are counters and masks, or rounded as on every backend."""


class Magnitudes(NamedTuple):
    """The magnitudes of a tensor's elements, the least of them and the greatest; either is NaN if any is."""

    all: Tensor
    least: float
    greatest: float

    @classmethod
    def of(cls, value: Tensor) -> Self:
        """Those of a tensor, which has elements."""
        sizes = value.abs()
        least, greatest = sizes.aminmax()
        return cls(sizes, least.item(), greatest.item())

    @property
    def finite(self) -> bool:
        """Whether all elements are finite."""
        return self.greatest < math.inf


class Perturb(TorchDispatchMode):
    """One perturbed run. `greatest` is the largest finite magnitude that any operator produced.

    Magnitudes near one of `masks` do not count.
    """

    _sizes = SIZES
    _rounds_alike = True
    masks: tuple[float, ...] = ()

    def __init__(self, dtype: DType, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.simulate(dtype)
        self._random = torch.Generator().manual_seed(seed)
        self._random_of_sums = torch.Generator().manual_seed(-1 - seed)  # other draws stay what they were
        self._place = place(seed)
        self._seed = seed
        self.greatest = 0.0

    def simulate(self, dtype: DType) -> None:
        """Rounds as `dtype` from here on."""
        self._dtype = dtype
        self._roundoff = torch.finfo(getattr(torch, dtype)).eps / 2
        self._wide = min(1.0, WIDE_ROUNDOFF / self._roundoff)
        self._flushed = FLUSHED[dtype]

    @contextmanager
    def narrowed(self, dtype: DType) -> Iterator[None]:
        """A context that rounds as `dtype` where that rounds more."""
        before = self._dtype
        self.simulate(coarsest((before, dtype), before))
        try:
            yield
        finally:
            self.simulate(before)

    def __torch_dispatch__(
        self,
        func: Overload,
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what an operator returns
        if dtype := narrow():
            with self.narrowed(dtype):
                kind = CLASSES["once"] if operator_name(func) in CASTS else self._kind(func)
                return self._rounded(func, kind, args, kwargs or {})
        return self._rounded(func, self._kind(func), args, kwargs or {})

    def _rounded(self, func: Overload, kind: Rounding, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """What an operator returns, rounded as its kind says."""
        if not kind.roundoffs or (args and getattr(args[0], "is_meta", False)):
            return func(*args, **kwargs)
        options = {name: kwargs[name] for name in kwargs.keys() - _given_for_results(func)}
        addend = self._addend(func, args, options)
        if kind.guarded:
            args, result = self._guarded(func, kind, args, kwargs)
        else:
            args = self._perturbed(func, kind, args) if kind.inputs else args
            result = func(*args, **kwargs)
        sizes = self._sizes.get(operator_name(func))
        if sizes and args[0].dtype == torch.float64 and args[0].numel():
            result = self._cancelled(result, sizes(result, *args, **options))
        self._add_errors(result, partial_sums(operator_name(func), self._place, args, options))
        for size, places in shared_errors(operator_name(func), result, args):
            error = self._draw(size, self._random_of_sums) * size * self._roundoff
            for place_of_error, factor in places:
                place_of_error.add_(error * factor)
        in_place = func._schema.is_mutable  # noqa: SLF001  no public name
        if isinstance(result, Tensor):
            return self._round(result, kind, in_place=in_place, addend=addend)
        if isinstance(result, tuple | list):
            return type(result)(
                self._round(r, kind, in_place=in_place) if isinstance(r, Tensor) else r for r in result
            )
        return result

    def _kind(self, func: Overload) -> Rounding:
        return rounding(func)

    def _addend(self, _func: Overload, _args: Sequence[Any], _kwargs: Mapping[str, Any]) -> Tensor | None:
        """The size of what is rounded before it is added to the result, from the arguments alone."""
        return None

    def _perturbed(self, func: Overload, kind: Rounding, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments with perturbed tensors; one that the operator writes to is perturbed in place."""
        where = written(func)
        return [
            self._moved(argument, kind, in_place=position in where)
            if isinstance(argument, Tensor)
            else argument
            for position, argument in enumerate(args)
        ]

    def _moved(self, argument: Tensor, kind: Rounding, *, in_place: bool) -> Tensor:
        """A perturbed argument."""
        roundoffs = self._wide if kind.wide_inputs else 1.0
        matrix = kind.matrices
        noisy = self._noisy_matrix(argument, matrix) if matrix else self._noisy(argument, roundoffs)
        return argument.copy_(noisy) if in_place else noisy

    def _guarded(
        self, func: Overload, kind: Rounding, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        """The perturbed arguments and their result, but where either is not finite that of the exact ones.

        Rounding an argument may leave the domain (logit of 1 + u), or make a matrix singular, and it may
        leave a pole. A correct program does not: its arguments are exact, or rounded where they were made.
        """
        own = [a.clone() if position in written(func) else a for position, a in enumerate(args)]
        exact, perturbed = func(*own, **kwargs), self._perturbed(func, kind, args)
        try:
            result = func(*perturbed, **kwargs)
        except RuntimeError:
            result = exact
        if not isinstance(result, tuple | list):
            return perturbed, self._finite(func, result, exact)
        return perturbed, type(result)(self._finite(func, *pair) for pair in zip(result, exact, strict=True))

    def _finite(self, func: Overload, result: Any, exact: Any) -> Any:  # noqa: ANN401  of several results
        if not isinstance(result, Tensor) or result.dtype not in SIMULATED or result is exact:
            return result
        chosen = torch.where(result.isfinite() & exact.isfinite(), result, exact)
        return result.copy_(chosen) if func._schema.is_mutable else chosen  # noqa: SLF001

    def _round(
        self, result: Tensor, kind: Rounding, *, in_place: bool, addend: Tensor | None = None
    ) -> Tensor:
        if result.dtype not in SIMULATED or not result.numel():
            return result
        sizes = Magnitudes.of(result)
        greatest = sizes.greatest if sizes.finite else sizes.all.nan_to_num(0.0, 0.0, 0.0).max().item()
        if self.masks and greatest > min(self.masks) * (1.0 - NEAR_A_MASK):
            greatest = self._without_masks(sizes.all)
        self.greatest = max(self.greatest, greatest)
        roundoffs = self._wide if kind.wide else kind.roundoffs
        noisy = self._noisy(result, roundoffs, sizes)
        if addend is not None and result.dtype == torch.float64:
            noisy += addend * self._roundoff * self._draw(result)
        return result.copy_(noisy) if in_place else noisy

    def _without_masks(self, sizes: Tensor) -> float:
        """The greatest of finite magnitudes that are no masks."""
        values = sizes.nan_to_num(0.0, 0.0, 0.0)
        for mask in self.masks:
            values = torch.where((values - mask).abs() <= NEAR_A_MASK * mask, 0.0, values)
        return values.max().item()

    def _cancelled(
        self, result: Tensor | tuple[Tensor, ...], sizes: tuple[Tensor, ...]
    ) -> Tensor | tuple[Tensor, ...]:
        """The results with absolute errors of up to one unit roundoff of `sizes`."""
        if isinstance(result, Tensor):
            return result + sizes[0] * self._roundoff * self._error_of(result)
        return tuple(
            r + size * self._roundoff * self._error_of(r) for r, size in zip(result, sizes, strict=True)
        )

    def _add_errors(self, results: Any, sizes: Sequence[Tensor | None]) -> None:  # noqa: ANN401  one or more
        """Adds the errors of partial sums, which are float32 at least."""
        all_results = [results] if len(sizes) == 1 else results if sizes else []
        for result, size in zip(all_results, sizes, strict=True):
            if size is not None:
                error = self._error_of(result, self._random_of_sums)
                result.add_(error.mul_(size).mul_(self._roundoff * self._wide))

    def _draw(self, like: Tensor, random: torch.Generator | None = None) -> Tensor:
        """Numbers drawn uniformly from [-1, 1), in the shape and dtype of `like`."""
        drawn = torch.empty(like.shape, dtype=like.dtype)
        return drawn.uniform_(-1.0, 1.0, generator=random or self._random)

    @cached_property
    def _errors(self) -> Tensor:
        """The errors of what is rounded alike."""
        errors = torch.empty(ERRORS, dtype=torch.float64)
        return errors.uniform_(-1.0, 1.0, generator=torch.Generator().manual_seed(self._seed))

    def _error_of(self, value: Tensor, random: torch.Generator | None = None) -> Tensor:
        """The same for a value; in float64 equal magnitudes have equal numbers: they are rounded alike.

        In other dtypes the oracle's own run in the dtype shows what that makes. In float64 that run is the
        exact one. (A bias had its gradient from 384 tokens of 8 kinds, and an error 14 times as large as of
        384 independent ones.)
        """
        if not self._rounds_alike or self._dtype != "float64" or value.dtype != torch.float64:
            return self._draw(value, random)
        factor = torch.randint(2**62, (), generator=random or self._random) * 2 + 1
        hashed = value.view(torch.int64).bitwise_and(SIGNLESS).mul_(factor)
        return self._errors[hashed.bitwise_right_shift_(48).bitwise_and_(ERRORS - 1)]

    def _noisy(self, value: Tensor, roundoffs: float = 1.0, sizes: Magnitudes | None = None) -> Tensor:
        """`value` (1 + u) + v, with |u| at most `roundoffs` unit roundoffs and |v| at most what is flushed.

        u is drawn for every element; the draws for v are those for u with the first dim in reverse order.
        """
        if value.dtype != torch.float64:
            return self._noisy_complex(value, roundoffs) if value.dtype in SIMULATED else value
        if not value.numel():
            return value.clone()
        relative, sizes = self._error_of(value), sizes or Magnitudes.of(value)
        if sizes.finite and sizes.least > self._flushed * BEYOND_FLUSHING:
            return _kept_finite(value + relative.mul_(value).mul_(roundoffs * self._roundoff), value, sizes)
        absolute = (relative.flip(0) if value.dim() else relative.clone()).mul_(self._flushed)
        finite = value.nan_to_num(0.0, 0.0, 0.0)  # a mask's infinity stays what it is
        most = finite.abs()  # flushing never goes beyond zero: a square stays positive
        relative.mul_(finite).mul_(roundoffs * self._roundoff)
        return _kept_finite((value + relative).add_(absolute.clamp_(-most, most)), value, sizes)

    def _noisy_matrix(self, value: Tensor, roundoffs: float) -> Tensor:
        """Every element with an error in units of the root mean square of its matrix, the last two dims."""
        if value.dtype not in SIMULATED or not value.numel():
            return value
        dims = [-2, -1][-value.dim() :] if value.dim() else []
        size = value.abs().square_().mean(dims, keepdim=True).sqrt_() if dims else value.abs()
        error = self._draw(value) if value.dtype == torch.float64 else self._complex_draw(value.abs())
        return value + error * (size * (roundoffs * self._roundoff))

    def _complex_draw(self, like: Tensor) -> Tensor:
        return torch.complex(self._draw(like), self._draw(like))

    def _noisy_complex(self, value: Tensor, roundoffs: float) -> Tensor:
        """Both parts with errors in units of the magnitude: a product's parts are differences."""
        size = value.abs().nan_to_num_(0.0, 0.0, 0.0)
        return value + self._complex_draw(size).mul_(size * (roundoffs * self._roundoff) + self._flushed)


def _kept_finite(noisy: Tensor, value: Tensor, sizes: Magnitudes) -> Tensor:
    """The noisy value, in which the greatest number of float64, a mask, does not become infinite."""
    most = torch.finfo(torch.float64).max
    if not sizes.greatest > most * (1.0 - NEAR_A_MASK):
        return noisy
    return torch.where(value.isfinite(), noisy.clamp(-most, most), noisy)


def masks(dtype: DType) -> tuple[float, ...]:
    """The magnitudes that stand for infinity in attention's masks, of a case of `dtype` and of its oracle."""
    kinds = (torch.float64, torch.float32, getattr(torch, dtype))
    return tuple(torch.finfo(kind).max for kind in kinds)


@cache
def _given_for_results(func: Overload) -> frozenset[str]:
    """The options by which an operator is given tensors to write its results into, such as `out`."""
    arguments = func._schema.arguments  # noqa: SLF001  no public name
    return frozenset(argument.name for argument in arguments if argument.is_out)


def coarsest(dtypes: Iterable[str], otherwise: DType) -> DType:
    """The dtype with the greatest roundoff among torch's names, where any of them is floating.

    A complex dtype counts as that of its parts.
    """
    parts = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
    floats = {parts.get(dtype, dtype) for dtype in dtypes} & {*FLUSHED}
    return cast(
        "DType", max(floats, key=lambda name: torch.finfo(getattr(torch, name)).eps, default=otherwise)
    )


def in_range(dtype: DType, greatest: float) -> bool:
    """Whether a run whose greatest magnitude is `greatest` stays well inside the range of `dtype`."""
    return greatest < torch.finfo(getattr(torch, dtype)).max / 4
