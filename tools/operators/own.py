"""Operators that torch's database of samples does not name, with calls of them, as entries of its type.

They are operators of lists, optimizers in one kernel, operators in place that no method has, and random ones
with arguments that leave nothing to chance. Their names begin with `aten.`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.testing import make_tensor
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.common_dtype import floating_types_and, integral_types
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from generators.operators.table import OWN

SHAPES = ((4, 6), (3, 5))
"""The shapes of the tensors of a list: one is cut evenly and one unevenly."""

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments and the options of a call."""

Make: TypeAlias = Callable[..., Tensor]
"""From a shape to a tensor with values between 0 and 1."""

Calls: TypeAlias = Callable[[Make], Iterator[Call]]

OPTIMIZER = {"weight_decay": 0.1, "lr": 0.1, "maximize": False}
ADAM = {**OPTIMIZER, "beta1": 0.9, "beta2": 0.99, "eps": 1e-5, "amsgrad": False}


def own_db() -> list[OpInfo]:
    """The entries."""
    return [*_of_lists(), *_updates(), *_of_integers(), *_drawn(), *_written(), *_others()]


def _of_lists() -> Iterator[OpInfo]:
    """The operators of lists in torch's own database of them, whose samples have twenty tensors each."""
    second: Mapping[str, Calls] = {
        "_foreach_lerp": _weighted,
        "_foreach_norm": _norms,
        "_foreach_clamp_max": _bounded,
        "_foreach_clamp_min": _bounded,
    }
    for kind, calls in (
        ("unary", _alone),
        ("reduce", _alone),
        ("binary", _pairs),
        ("pointwise", _triples),
        ("other", _alone),
    ):
        for op in getattr(database, f"foreach_{kind}_op_db"):
            own = second.get(op.name, calls)
            yield _entry(op.name, op.op, own, inplace=op.inplace_variant)


def _lists(make: Make, count: int) -> tuple[list[Tensor], ...]:
    return tuple([make(shape) for shape in SHAPES] for _ in range(count))


def _alone(make: Make) -> Iterator[Call]:
    yield _lists(make, 1), {}


def _pairs(make: Make) -> Iterator[Call]:
    yield _lists(make, 2), {}
    yield (*_lists(make, 1), 0.5), {}


def _bounded(make: Make) -> Iterator[Call]:
    yield from reversed(list(_pairs(make)))


def _triples(make: Make) -> Iterator[Call]:
    yield _lists(make, 3), {}
    yield (*_lists(make, 3), 0.5), {}


def _weighted(make: Make) -> Iterator[Call]:
    yield (*_lists(make, 2), 0.25), {}
    yield _lists(make, 3), {}


def _norms(make: Make) -> Iterator[Call]:
    yield (*_lists(make, 1), 2), {}
    yield (*_lists(make, 1), 1), {}


def _updates() -> Iterator[OpInfo]:
    """Optimizers in one kernel, and what scales gradients of half types."""
    aten = torch.ops.aten
    for name, calls in (
        ("_fused_adam", _adam),
        ("_fused_adamw", _adam),
        ("_fused_sgd", _sgd),
        ("_fused_adagrad", _adagrad),
    ):
        yield _entry(name, getattr(aten, name), calls, gradient=False)
        yield _entry(f"{name}_", getattr(torch, f"{name}_"), calls, gradient=False)
    scales = {"_amp_foreach_non_finite_check_and_unscale_": _unscale, "_amp_update_scale_": _rescale}
    for name, calls in scales.items():
        yield _entry(name, getattr(torch, name), calls, gradient=False)


def _adam(make: Make) -> Iterator[Call]:
    steps = [torch.tensor(3.0) for _ in SHAPES]
    yield (*_lists(make, 4), [], steps), ADAM
    yield (*_lists(make, 5), steps), {**ADAM, "amsgrad": True}


def _sgd(make: Make) -> Iterator[Call]:
    options = {**OPTIMIZER, "momentum": 0.9, "dampening": 0.0, "nesterov": False, "is_first_step": False}
    yield _lists(make, 3), options


def _adagrad(make: Make) -> Iterator[Call]:
    steps = [torch.tensor(3.0) for _ in SHAPES]
    yield (*_lists(make, 3), steps), {**OPTIMIZER, "lr_decay": 0.1, "eps": 1e-5}


def _unscale(make: Make) -> Iterator[Call]:
    yield (*_lists(make, 1), torch.zeros(()), torch.tensor(0.25)), {}


def _rescale(_make: Make) -> Iterator[Call]:
    yield (torch.tensor(4.0), torch.tensor(1, dtype=torch.int32), torch.zeros(()), 2.0, 0.5, 2), {}


def _of_integers() -> Iterator[OpInfo]:
    """Shifts, which Python's operators write `<<` and `>>`."""
    for name in ("__lshift__", "__rshift__", "__ilshift__", "__irshift__"):
        yield _entry(name, getattr(Tensor, name), _shifts, gradient=False, dtypes=integral_types())


def _shifts(_make: Make) -> Iterator[Call]:
    values = torch.arange(24).reshape(4, 6)
    yield (values, values % 3), {}
    yield (values, 2), {}


def _drawn() -> Iterator[OpInfo]:
    """Random operators that draw what they must: the probability is 0 or 1, or the range has one number."""
    rows = [
        ("bernoulli", torch.bernoulli, (), {}),
        ("bernoulli_", Tensor.bernoulli_, (1.0,), {}),
        ("normal_", Tensor.normal_, (2.0, 0.0), {}),
        ("uniform_", Tensor.uniform_, (1.0, 1.0), {}),
        ("randint_like", torch.randint_like, (3, 4), {}),
        ("native_dropout", torch.native_dropout, (0.0, True), {}),
    ]
    for name, function, further, options in rows:
        yield _entry(name, function, _fixed(further, options), gradient=name == "native_dropout")


def _fixed(further: Sequence[Any], options: dict[str, Any]) -> Calls:
    """Calls with a tensor of zeros and ones."""

    def calls(make: Make) -> Iterator[Call]:
        for shape in SHAPES:
            yield (make(shape).detach().round().requires_grad_(make(shape).requires_grad), *further), options

    return calls


def _written() -> Iterator[OpInfo]:
    """Operators in place that have no gradient, take booleans, or are another name of an operator."""
    square = (SHAPES[0], SHAPES[0])
    rows = {
        "acosh_": _above,
        "asinh_": _of(SHAPES[0]),
        "atanh_": _of(SHAPES[0]),
        "clip_": _of(SHAPES[0], further=(0.25, 0.75)),
        "float_power_": _doubles,
        "igamma_": _of(*square),
        "igammac_": _of(*square),
        "ldexp_": _of(*square),
        "polygamma_": _of(SHAPES[0], further=(1,)),
        "scatter_": _scattered,
    }
    for name, calls in rows.items():
        yield _entry(name, getattr(Tensor, name), calls, gradient=False)
    for name, count in {"logical_not_": 1, "logical_and_": 2, "logical_xor_": 2}.items():
        yield _entry(name, getattr(Tensor, name), _of(*square[:count]), gradient=False, dtypes={torch.bool})
    yield _entry("relu_", Tensor.relu_, _of(SHAPES[0]))
    yield _entry("_index_put_impl_", torch._index_put_impl_, _put, gradient=False)


def _others() -> Iterator[OpInfo]:
    """Operators that no sample of the database calls, and those whose backward hides them on a backend."""
    image, volume = (2, 3, 4, 4), (2, 2, 2, 4, 4)
    yield _entry("clip", torch.clip, _of(SHAPES[0], further=(0.25, 0.75)))
    yield _entry("contiguous", Tensor.contiguous, _turned)
    yield _entry("rsub", torch.rsub, _of(SHAPES[0], further=(2.0,)))
    yield _entry("is_same_size", torch.is_same_size, _of(SHAPES[0], SHAPES[1]), gradient=False)
    yield _entry("nll_loss2d", torch.nn.functional.nll_loss, _classes)
    yield _entry("index_select", torch.index_select, _chosen, gradient=False)
    sizes = {
        "upsample_linear1d": ((2, 3, 4), ([8], False)),
        "upsample_nearest2d": (image, ([8, 6],)),
        "upsample_bilinear2d": (image, ([8, 6], False)),
        "upsample_bicubic2d": (image, ([8, 6], True)),
        "upsample_trilinear3d": (volume, ([4, 8, 6], False)),
    }
    for name, (shape, further) in sizes.items():
        yield _entry(name, getattr(torch.ops.aten, name), _of(shape, further=further), gradient=False)
    for name in ("_grouped_mm", "_scaled_mm"):
        yield _entry(name, getattr(torch, name), _of(*SHAPES))


def _of(*shapes: Sequence[int], further: tuple[Any, ...] = ()) -> Calls:
    """A call with tensors of these shapes, and what is given after them."""

    def calls(make: Make) -> Iterator[Call]:
        yield (*map(make, shapes), *further), {}

    return calls


def _above(make: Make) -> Iterator[Call]:
    yield (make((4, 6)) + 1,), {}


def _doubles(make: Make) -> Iterator[Call]:
    yield (make((4, 6)).double(), 2.0), {}


def _turned(make: Make) -> Iterator[Call]:
    yield (make((4, 6)).mT.detach().requires_grad_(),), {}


def _scattered(make: Make) -> Iterator[Call]:
    yield (make((4, 6)), 0, torch.tensor([[0, 1, 2], [3, 0, 1]]), make((2, 3))), {}


def _chosen(make: Make) -> Iterator[Call]:
    yield (make((4, 6)), 1, torch.tensor([0, 5, 2])), {}


def _classes(make: Make) -> Iterator[Call]:
    yield (make((2, 3, 4, 4)), torch.arange(32).reshape(2, 4, 4) % 3), {}


def _put(make: Make) -> Iterator[Call]:
    yield (make((4, 6)), [torch.tensor([0, 2])], make((2, 6))), {}
    yield (make((4, 6)), [torch.tensor([0, 2, 0])], make((3, 6)), True), {}


def _entry(  # noqa: PLR0913  what an entry has
    name: str,
    function: Any,  # noqa: ANN401  an operator
    calls: Calls,
    *,
    inplace: Any = None,  # noqa: ANN401  an operator
    gradient: bool = True,
    dtypes: Any = None,  # noqa: ANN401  torch's type is private
) -> OpInfo:
    def samples(
        _op: OpInfo,
        device: str,
        dtype: torch.dtype,
        requires_grad: bool,  # noqa: FBT001  as torch calls it
        **_: object,
    ) -> Iterator[SampleInput]:
        def make(shape: Sequence[int]) -> Tensor:
            low, high = (None, None) if dtype is torch.bool else (0.1, 0.9)
            return make_tensor(
                shape, dtype=dtype, device=device, low=low, high=high, requires_grad=requires_grad
            )

        for (first, *rest), options in calls(make):
            yield SampleInput(first, args=tuple(rest), kwargs=options)

    return OpInfo(
        f"{OWN}{name}",
        op=function,
        dtypes=dtypes or floating_types_and(torch.bfloat16, torch.float16),
        sample_inputs_func=samples,
        supports_autograd=gradient,
        supports_out=False,
        method_variant=None,
        inplace_variant=inplace,
    )
