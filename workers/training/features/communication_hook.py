"""A communication hook of `DistributedDataParallel`.

Equal to the mean over ranks. Where a hook casts, every rank's share is rounded as the narrow dtype, and so is
the sum. Where it factors matrices, each is the product of an orthogonal basis of its columns and of what the
shares are in that basis.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from difftest.cases.features.communication_hook import (
    FACTORED,
    FULL_RANK,
    LATE,
    LEAST_RATE,
    LONGER,
    NARROW,
    WARM,
    Options,
)
from workers.training.features import TORCH_DEVICES, Hooks, TrainingProgress, require_wrapped
from workers.training.features.autocast import simulate


def hooks(options: Options) -> Hooks:
    """Registered ahead of the first step."""

    def before(progress: TrainingProgress) -> None:
        if progress.step == 0:
            register(progress.module, options.kind)

    return Hooks(before=before)


def equal(options: Options) -> Hooks:
    """Gradients are added up rank by rank where what a rank sends is not its gradient."""
    if options.kind in NARROW:
        return Hooks(backward=lambda progress: _narrowed(progress, NARROW[options.kind]))
    if options.kind in FACTORED:
        return Hooks(backward=_factored if options.kind != "batched_power" else _factored_together)
    return Hooks()


def register(module: nn.Module, kind: str) -> None:
    """Registers the hook of a kind. PowerSGD writes into views of a bucket, which XLA's are not."""
    devices = TORCH_DEVICES if kind in FACTORED else (*TORCH_DEVICES, "xla")
    require_wrapped(module, "communication hooks", devices)
    assert isinstance(module, DistributedDataParallel)  # noqa: S101  as required
    module.register_comm_hook(_state(module, kind), hook(kind))


def hook(kind: str) -> Callable[..., Any]:
    """Torch's function."""
    if kind in ("fp16_wrapper", "bf16_wrapper"):
        wrapper = getattr(default_hooks, kind.replace("wrapper", "compress_wrapper"))
        return cast("Callable[..., Any]", wrapper(default_hooks.allreduce_hook))
    if kind in (*FACTORED, *LATE):
        batched = kind.startswith("batched")
        return powerSGD_hook.batched_powerSGD_hook if batched else powerSGD_hook.powerSGD_hook
    return cast("Callable[..., Any]", getattr(default_hooks, f"{kind}_hook"))


def _state(module: nn.Module, kind: str) -> powerSGD_hook.PowerSGDState | None:
    """What PowerSGD keeps between steps; None for the default group of all other hooks."""
    if kind in LATE:
        return powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=LONGER)
    if kind not in FACTORED:
        return None
    side = _side(sum(one.numel() for one in module.parameters() if one.requires_grad))
    warm = kind == "power_warm"
    return powerSGD_hook.PowerSGDState(
        None,
        matrix_approximation_rank=side if kind == "batched_power" else FULL_RANK,
        start_powerSGD_iter=WARM if warm else 0,
        min_compression_rate=LEAST_RATE,
        use_error_feedback=warm,
        warm_start=warm,
    )


def _side(numbers: int) -> int:
    """The side of the least square that has so many numbers."""
    return math.isqrt(numbers - 1) + 1


def _shares(progress: TrainingProgress) -> list[list[Tensor]]:
    """By parameter that has a gradient, what every rank's rows give to it."""
    trained = _trained(progress)
    ranks = range(progress.ranks)
    by_rank = [torch.autograd.grad(progress.of_rank(rank), trained, allow_unused=True) for rank in ranks]
    return [
        [torch.zeros_like(one) if share is None else share for share in shares]
        for one, *shares in zip(trained, *by_rank, strict=True)
    ]


def _trained(progress: TrainingProgress) -> list[nn.Parameter]:
    return [one for one in progress.module.parameters() if one.grad is not None]


def _put(progress: TrainingProgress, gradients: Sequence[Tensor]) -> None:
    for parameter, gradient in zip(_trained(progress), gradients, strict=True):
        parameter.grad = gradient


def _narrowed(progress: TrainingProgress, dtype: str) -> None:
    """The sum of what the ranks have, rounded as `dtype`."""
    shares = _shares(progress)
    simulate(dtype)
    gradients = [_sum([_cast(share, dtype) for share in of_one]) for of_one in shares]
    simulate("float32")
    _put(progress, gradients)


def _cast(tensor: Tensor, dtype: str) -> Tensor:
    """Rounded as `dtype`; float64, in which rounding is simulated, stays."""
    wide = tensor.dtype == torch.float64
    return tensor * 1.0 if wide else tensor.to(getattr(torch, dtype)).to(tensor.dtype)


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    return reduce(torch.add, tensors)


def _factored(progress: TrainingProgress) -> None:
    """Every matrix by itself; vectors are added up."""
    shares = _shares(progress)
    _put(progress, [_in_basis(of_one) if of_one[0].dim() > 1 else _sum(of_one) for of_one in shares])


def _factored_together(progress: TrainingProgress) -> None:
    """All numbers as one square matrix."""
    shares = _shares(progress)
    sizes = [of_one[0].numel() for of_one in shares]
    side = _side(sum(sizes))
    ranks = [torch.cat([one.flatten() for one in of_rank]) for of_rank in zip(*shares, strict=True)]
    padded = [torch.cat([one, one.new_zeros(side**2 - len(one))]).view(side, side) for one in ranks]
    whole = _in_basis(padded).flatten()[: sum(sizes)].split(sizes)
    _put(progress, [piece.view_as(of_one[0]) for piece, of_one in zip(whole, shares, strict=True)])


def _in_basis(shares: Sequence[Tensor]) -> Tensor:
    """The sum of matrices as the product of a basis of its columns and of their shares in it."""
    matrices = [share.reshape(len(share), -1) for share in shares]
    basis, _ = torch.linalg.qr(_sum(matrices))
    return cast("Tensor", basis @ _sum([basis.T @ matrix for matrix in matrices])).view_as(shares[0])
