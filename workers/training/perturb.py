"""Monte Carlo arithmetic on the oracle, which simulates the rounding of the dtype under test.

Every floating-point result is multiplied by 1 + u, with |u| at most the unit roundoff of that dtype. The
spread of the perturbed runs *is* the rounding noise of the case, amplified through depth, steps and optimizer
as rounding itself would be (D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997; Verificarlo does the
same to compiled code). Operators that add many terms have their inputs perturbed too: that models the
rounding of partial sums, which cancellation would hide from the result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from difftest.cases.case import DType

EXACT = frozenset(
    """
    abs alias amax as_strided bitwise_and bitwise_not cat clone constant_pad_nd copy_ detach embedding
    empty empty_like eq expand fill_ full full_like gather ge gt index_select isfinite le logical_and
    logical_not lt masked_fill masked_fill_ max maximum min minimum ne neg new_empty new_zeros ones
    ones_like permute relu repeat_interleave reshape scalar_tensor select select_backward set_ sign
    slice slice_backward split squeeze stack t threshold_backward transpose tril triu unsqueeze view
    where zero_ zeros zeros_like _to_copy _unsafe_view unbind lift_fresh _local_scalar_dense
    """.split()  # noqa: SIM905  one name per line would fill two screens
)
"""Operators whose results are copies or selections of their inputs: nothing is rounded in them."""

SUMMING = frozenset(
    """
    mm addmm bmm baddbmm sum mean convolution convolution_backward native_layer_norm
    native_layer_norm_backward _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
    embedding_dense_backward linalg_vector_norm scatter_add scatter_add_ index_add cumsum var var_mean
    _fused_rms_norm _fused_rms_norm_backward
    """.split()  # noqa: SIM905  one name per line would fill two screens
)
"""Operators that add many terms."""

ELEMENTARY = frozenset(
    """
    exp log tanh tanh_backward erf sigmoid gelu gelu_backward silu silu_backward _softmax
    _softmax_backward_data _log_softmax _log_softmax_backward_data rsqrt pow
    """.split()  # noqa: SIM905  one name per line would fill two screens
)
"""Functions that libraries approximate: correct to a few units in the last place, not to half of one."""

ELEMENTARY_ROUNDOFFS = 4.0
"""The rounding of those functions, in unit roundoffs: two units in the last place.

The CUDA C++ Programming Guide's table of single-precision functions gives these for exp, tanh and erf.
"""

WIDE = frozenset({"logsumexp"})
"""Operators whose results kernels keep in float32 whatever the dtype: attention's row normalizers."""

WIDE_ROUNDOFF = torch.finfo(torch.float32).eps / 2
"""The unit roundoff of float32."""

INSIDE: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "_log_softmax": lambda _result, inputs, *_: (inputs.abs().amax(-1, keepdim=True),),
    "_log_softmax_backward_data": lambda _result, gradient, output, *_: (
        output.exp() * gradient.sum(-1, keepdim=True).abs(),
    ),
    "gelu": lambda _result, inputs, *_, **__: (inputs.abs() * ELEMENTARY_ROUNDOFFS,),
    "gelu_backward": lambda _result, gradient, *_, **__: (gradient.abs() * ELEMENTARY_ROUNDOFFS,),
    "native_layer_norm": lambda result, *_: _layer_norm_sizes(*result),
    "sum": lambda result, terms, dim=None, *_, **__: (_partial_sums(terms, dim).reshape(result.shape),),
    "mean": lambda result, terms, dim=None, *_, **__: (
        _partial_sums(terms, dim).reshape(result.shape) * result.numel() / terms.numel(),
    ),
    "embedding_dense_backward": lambda result, gradient, indices, *_: (
        _partial_rows(gradient, indices, len(result)),
    ),
}
"""Operators that round intermediate results, with the size of those for each result.

Intermediate results are rounded however little of them is left in the result. Some of these operators
subtract inside. Some may add term by term in the dtype itself (XLA on CPU does; torch adds in pairs, in
float32). gelu is x (1 + erf) / 2, so far left of 0 its error is the error of erf times x.
"""


def _partial_sums(terms: Tensor, dim: Sequence[int] | int | None) -> Tensor:
    """The size of the partial sums over `dim`, or over all dims when it is None.

    That is the root of the sum of their squares, without the reduced dims. Each partial sum is rounded once,
    and the errors do a random walk: N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
    4.2.
    """
    dims = [dim] if isinstance(dim, int) else list(dim or range(terms.dim()))
    if not dims:
        return terms.abs()
    last = terms.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
    return last.cumsum(-1).square_().sum(-1).sqrt_()


def _partial_rows(gradient: Tensor, indices: Tensor, rows: int) -> Tensor:
    """The size of the partial sums of each of `rows` rows, to which the rows of `gradient` are added."""
    chosen = torch.nn.functional.one_hot(indices.flatten(), rows).to(gradient.dtype).unsqueeze(-1)
    return ((chosen * gradient.flatten(0, -2).unsqueeze(1)).cumsum(0) * chosen).square_().sum(0).sqrt_()


def _layer_norm_sizes(output: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sizes for layer normalisation's output, mean and reciprocal standard deviation (`scale`).

    The variance may be computed as E[x^2] - E[x]^2, as XLA does. Its relative error is then (mean /
    deviation)^2 roundoffs.
    """
    lost = (mean * scale) ** 2
    return output.abs() * lost, torch.zeros_like(mean), scale * lost


FLUSHED = {
    "float32": torch.finfo(torch.float32).tiny,
    "bfloat16": torch.finfo(torch.bfloat16).tiny,
    "float16": 2.0**-25,
    "float64": torch.finfo(torch.float64).tiny,
}
"""The absolute error of a result near zero, by dtype.

XLA on CPU flushes subnormals of float32 and bfloat16 to zero; for float16 it is half the least subnormal.
"""


class Perturb(TorchDispatchMode):
    """One perturbed run. `greatest` is the largest finite magnitude that any operator produced."""

    def __init__(self, dtype: DType, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._roundoff = torch.finfo(getattr(torch, dtype)).eps / 2
        self._flushed = FLUSHED[dtype]
        self._random = torch.Generator().manual_seed(seed)
        self.greatest = 0.0

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  an operator overload, which has no public type in torch
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        name = func._schema.name.removeprefix("aten::")  # noqa: SLF001  no public name
        if name in SUMMING:
            args = [self._noisy(a) if isinstance(a, Tensor) else a for a in args]
        result = func(*args, **(kwargs or {}))
        if name in INSIDE and args[0].dtype == torch.float64:
            result = self._cancelled(result, INSIDE[name](result, *args, **(kwargs or {})))
        if name in EXACT or func.is_view:
            return result
        in_place = func._schema.is_mutable  # noqa: SLF001
        if isinstance(result, Tensor):
            return self._round(result, name, in_place=in_place)
        if isinstance(result, tuple | list):
            return type(result)(
                self._round(r, name, in_place=in_place) if isinstance(r, Tensor) else r for r in result
            )
        return result

    def _round(self, result: Tensor, name: str, *, in_place: bool) -> Tensor:
        if result.dtype != torch.float64 or not result.numel():
            return result
        self.greatest = max(self.greatest, result.nan_to_num(0.0, 0.0, 0.0).abs().max().item())
        noisy = self._noisy(result, self._roundoffs(name))
        return result.copy_(noisy) if in_place else noisy

    def _roundoffs(self, name: str) -> float:
        """How far an operator's result is rounded, in unit roundoffs of the dtype under test."""
        if name in WIDE:
            return min(1.0, WIDE_ROUNDOFF / self._roundoff)
        return ELEMENTARY_ROUNDOFFS if name in ELEMENTARY else 1.0

    def _cancelled(
        self, result: Tensor | tuple[Tensor, ...], sizes: tuple[Tensor, ...]
    ) -> Tensor | tuple[Tensor, ...]:
        """The results with absolute errors of up to one unit roundoff of `sizes`."""
        if isinstance(result, Tensor):
            return result + sizes[0] * self._roundoff * self._draw(result)
        return tuple(r + size * self._roundoff * self._draw(r) for r, size in zip(result, sizes, strict=True))

    def _draw(self, like: Tensor) -> Tensor:
        """Numbers drawn uniformly from [-1, 1), in the shape and dtype of `like`."""
        return torch.rand(like.shape, dtype=like.dtype, generator=self._random).mul_(2.0).sub_(1.0)

    def _noisy(self, value: Tensor, roundoffs: float = 1.0) -> Tensor:
        """`value` (1 + u) + v, with |u| at most `roundoffs` unit roundoffs and |v| at most what is flushed.

        u is drawn for every element; the draws for v are those for u with the first dim in reverse order.
        """
        if value.dtype != torch.float64:
            return value
        relative = self._draw(value)
        absolute = relative.flip(0) if value.dim() else relative
        finite = value.nan_to_num(0.0, 0.0, 0.0)  # a mask's infinity stays what it is
        most = finite.abs()  # flushing takes a value to zero and never beyond: a square stays positive
        return (
            value
            + (finite * relative).mul_(roundoffs * self._roundoff)
            + (absolute * self._flushed).clamp(-most, most)
        )


@contextmanager
def perturbed(dtype: DType, seed: int) -> Iterator[Perturb]:
    """A context in which every operator computes with the simulated rounding of `dtype`."""
    with Perturb(dtype, seed) as mode:
        yield mode


def in_range(dtype: DType, greatest: float) -> bool:
    """Whether a run whose greatest magnitude is `greatest` stays well inside the range of `dtype`."""
    return greatest < torch.finfo(getattr(torch, dtype)).max / 4
