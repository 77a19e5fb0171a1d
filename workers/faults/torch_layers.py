"""Planted faults of torch's layers and losses, the same in every process (as in `torch_optimizers`)."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.case import Case
from difftest.cases.layers import walk
from workers.faults import in_torch, replace_in_torch
from workers.faults.torch_optimizers import Reaches
from workers.training.session import Session


def _has_layer(*kinds: str) -> Reaches:
    """Cases with a layer, or with an activation, called so."""
    return lambda case: any({layer.kind, layer.title} & set(kinds) for _, layer in walk(case.model.layers))


@in_torch(about="LayerNorm divides by the unbiased variance", reaches=_has_layer("layer_norm"))
def variance_unbiased(session: Session, _case: Case, _rank: int) -> Session:
    """Over one column less."""

    def forward(self: nn.LayerNorm, inputs: Tensor) -> Tensor:
        centred = inputs - inputs.mean(-1, keepdim=True)
        variance = (centred**2).sum(-1, keepdim=True) / max(1, inputs.shape[-1] - 1)
        return centred / (variance + self.eps).sqrt() * self.weight + self.bias

    replace_in_torch(nn.LayerNorm, "forward", forward)
    return session


@in_torch(about="RMSNorm adds its epsilon to the root", reaches=_has_layer("rms_norm"))
def epsilon_beside_root(session: Session, _case: Case, _rank: int) -> Session:
    """And not to the mean of squares."""

    def forward(self: nn.RMSNorm, inputs: Tensor) -> Tensor:
        root = (inputs**2).mean(-1, keepdim=True).sqrt()
        return inputs / (root + cast("float", self.eps)) * self.weight

    replace_in_torch(nn.RMSNorm, "forward", forward)
    return session


def _with_derivative(
    function: Callable[[Tensor], Tensor], derivative: Callable[[Tensor], Tensor]
) -> Callable[[nn.Module, Tensor], Tensor]:
    """The forward of a module: `function`, whose gradient is multiplied by `derivative`."""

    class WrongDerivative(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: Tensor) -> Tensor:  # noqa: ANN401  torch's own type is private
            ctx.save_for_backward(inputs)
            return function(inputs)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401
            return gradients[0] * derivative(ctx.saved_tensors[0])

    def forward(_module: nn.Module, inputs: Tensor) -> Tensor:
        return cast("Tensor", WrongDerivative.apply(inputs))  # type: ignore[no-untyped-call]

    return forward


@in_torch(about="the derivative of GELU lacks the density's term", reaches=_has_layer("gelu"))
def gelu_derivative_in_part(session: Session, _case: Case, _rank: int) -> Session:
    """A term of the product rule is missing."""
    share = lambda inputs: (1 + torch.erf(inputs / math.sqrt(2))) / 2  # noqa: E731
    replace_in_torch(nn.GELU, "forward", _with_derivative(functional.gelu, share))
    return session


@in_torch(about="the derivative of SiLU lacks a term", reaches=_has_layer("silu"))
def silu_derivative_in_part(session: Session, _case: Case, _rank: int) -> Session:
    """It is the sigmoid alone."""
    replace_in_torch(nn.SiLU, "forward", _with_derivative(functional.silu, torch.sigmoid))
    return session


@in_torch(about="tanh has the derivative of a coarser tanh", reaches=_has_layer("tanh"))
def tanh_derivative_rounded(session: Session, _case: Case, _rank: int) -> Session:
    """It is computed in float32 in every dtype."""
    slope = lambda inputs: (1 - inputs.float().tanh() ** 2).to(inputs.dtype)  # noqa: E731
    replace_in_torch(nn.Tanh, "forward", _with_derivative(torch.tanh, slope))
    return session


@in_torch(about="the gradient of an embedding counts each id once", reaches=_has_layer("embedding"))
def repeated_ids_lost(session: Session, _case: Case, _rank: int) -> Session:
    """It is divided by how often the id is there."""

    def forward(self: nn.Embedding, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight, scale_grad_by_freq=True)

    replace_in_torch(nn.Embedding, "forward", forward)
    return session


@in_torch(about="softmax's derivative lacks the sum over a row", reaches=_has_layer("attention"))
def softmax_derivative_in_part(session: Session, _case: Case, _rank: int) -> Session:
    """As if the elements of a row did not influence each other."""

    class WrongSoftmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, scores: Tensor) -> Tensor:  # noqa: ANN401  torch's own type is private
            shares = torch.softmax(scores, -1)
            ctx.save_for_backward(shares)
            return shares

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401
            (shares,) = ctx.saved_tensors
            return cast("Tensor", gradients[0] * shares * (1 - shares))

    def softmax(scores: Tensor, dim: int | None = None, **_options: object) -> Tensor:  # noqa: ARG001
        return cast("Tensor", WrongSoftmax.apply(scores))  # type: ignore[no-untyped-call]

    replace_in_torch(functional, "softmax", softmax)
    return session


@in_torch(
    about="log_softmax subtracts a logarithm in float32",
    reaches=lambda case: case.training.loss == "cross_entropy",
)
def logarithm_rounded(session: Session, _case: Case, _rank: int) -> Session:
    """In every dtype."""

    def log_softmax(scores: Tensor, dim: int | None = None, **_options: object) -> Tensor:
        sizes = scores.logsumexp(-1 if dim is None else dim, keepdim=True)
        return scores - sizes.float().to(scores.dtype)

    replace_in_torch(functional, "log_softmax", log_softmax)
    return session


@in_torch(about="weights pass through float32 when they are loaded")
def weights_cast_at_first(session: Session, _case: Case, _rank: int) -> Session:
    """In every dtype."""
    right = nn.Module.load_state_dict

    def load(self: nn.Module, state_dict: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        narrow = {
            name: value.float().to(value.dtype) if value.is_floating_point() else value
            for name, value in state_dict.items()
        }
        return right(self, narrow, *arguments, **options)

    replace_in_torch(nn.Module, "load_state_dict", load)
    return session


@in_torch(about="a convolution's kernel is turned around", reaches=_has_layer("conv"))
def kernel_turned(session: Session, _case: Case, _rank: int) -> Session:
    """A convolution and not a cross-correlation."""
    right = functional.conv1d

    def forward(self: nn.Conv1d, inputs: Tensor) -> Tensor:
        return right(inputs, self.weight.flip(-1), self.bias, self.stride, self.padding)

    replace_in_torch(nn.Conv1d, "forward", forward)
    return session
